// The second half of RankRules: reductions, the optimizer boundary and what must be complete.
#include "core/check.h"
#include "pipeline/rank_rules.h"

namespace fm::pipeline {

using core::concat;

std::string RankRules::take_gradient_slot(int micro, int unit) {
  if (!rules_.plan.reduce_every_micro) {
    return reduced_.contains({-1, unit}) ? concat("unit ", unit, " is reduced already") : "";
  }
  if (gradient_slot_.second >= 0) {
    return concat("the gradient slot still holds ", gradient_slot_.first, ".",
                  gradient_slot_.second, ", which waits for its Reduce");
  }
  gradient_slot_ = {micro, unit};
  return "";
}

std::string RankRules::take_tied_slot(int micro) {
  if (!row_.one_tied_gradient || !rules_.plan.reduce_every_micro) return "";
  if (tied_micro_ >= 0) {
    return concat("the tied matrix's slot still holds micro-batch ", tied_micro_,
                  ", which waits for the embedding's Reduce");
  }
  tied_micro_ = micro;
  return "";
}

std::string RankRules::reduce(int micro, int unit) {
  const bool every_micro = rules_.plan.reduce_every_micro;
  if (every_micro != (micro >= 0)) {
    return every_micro ? "this plan reduces every micro-batch" : "this plan reduces once per step";
  }
  if (reduced_.contains({micro, unit})) return "this gradient is reduced already";
  if (every_micro && gradient_slot_ != MicroUnit{micro, unit}) return "its gradient is not there";
  if (every_micro && micro > 0 && !reduced_.contains({micro - 1, unit})) {
    return "gradients are added in the order of micro-batches";
  }
  for (int each = 0; !every_micro && each < rules_.micros; ++each) {
    const bool written =
        unit == row_.head() ? lost_.contains(each) : weight_.contains({each, unit});
    if (!written) return concat("the gradient of micro-batch ", each, " is missing");
  }
  gradient_slot_ = {-1, -1};
  if (unit == 0) tied_micro_ = -1;
  reduced_.insert({micro, unit});
  return "";
}

bool RankRules::reduced(int unit) const {
  return reduced_.contains({rules_.plan.reduce_every_micro ? rules_.micros - 1 : -1, unit});
}

std::string RankRules::reduce_tied() {
  if (!row_.has_tied_end(rank_)) return "this pipe rank holds no end of a tied matrix";
  if (tied_) return "the tied gradient is reduced already";
  if (row_.is_first(rank_) && !reduced(0)) return "the embedding's gradient is not reduced";
  if (row_.is_last(rank_) && !reduced(row_.head())) return "the head's gradient is not reduced";
  tied_ = true;
  return "";
}

std::string RankRules::norm() {
  if (rules_.forward_only) return "evaluation has no gradients";
  if (normed_) return "the norm is known already";
  std::string missing = incomplete_reductions();
  if (!missing.empty()) return missing;
  normed_ = true;
  return "";
}

std::string RankRules::update(int unit) {
  if (!normed_) return "the clipping factor needs the norm";
  if (!updated_.insert(unit).second) return concat("unit ", unit, " is updated already");
  return "";
}

std::string RankRules::publish(int unit) {
  if (!rules_.plan.publishes()) return "this plan publishes nothing";
  if (!updated_.contains(unit)) return concat("unit ", unit, " is not updated");
  if (!published_.insert(unit).second) return concat("unit ", unit, " is published already");
  return "";
}

std::string RankRules::report() {
  std::string missing = incomplete_compute();
  if (missing.empty()) missing = incomplete_exchange();
  if (missing.empty() && !rules_.forward_only) missing = incomplete_boundary();
  if (missing.empty()) reported_ = true;
  return missing;
}

std::string RankRules::check_end() const { return reported_ ? "" : "the report is missing"; }

std::string RankRules::incomplete_compute() const {
  if (!gathered_.empty()) return concat("unit ", *gathered_.begin(), " is never released");
  for (int micro = 0; micro < rules_.micros; ++micro) {
    for (int unit = body_.first; unit < body_.last; ++unit) {
      if (!forward_.contains({micro, unit})) {
        return concat(print({Op::kForward, micro, unit}), " is missing");
      }
      if (!rules_.forward_only && !weight_.contains({micro, unit})) {
        return concat(print({Op::kBackward, micro, unit}), " is missing");
      }
    }
    if (row_.is_last(rank_) && !lost_.contains(micro)) {
      return concat(print({Op::kLoss, micro, -1}), " is missing");
    }
  }
  return "";
}

std::string RankRules::incomplete_exchange() const {
  std::vector<Op> due;
  if (!row_.is_last(rank_)) due.push_back(Op::kSendAct);
  if (!row_.is_last(rank_) && !rules_.forward_only) due.push_back(Op::kRecvGrad);
  if (!row_.is_first(rank_) && !rules_.forward_only) due.push_back(Op::kSendGrad);
  for (const Op op : due) {
    for (int micro = 0; micro < rules_.micros; ++micro) {
      if (!exchanged_.contains({op, micro, -1})) {
        return concat(print({op, micro, -1}), " is missing");
      }
    }
  }
  return "";
}

std::string RankRules::incomplete_reductions() const {
  for (int unit = range_.first; unit < range_.last; ++unit) {
    if (!reduced(unit)) return concat("the gradient of unit ", unit, " is not reduced");
  }
  if (row_.has_tied_end(rank_) && !tied_) return "the tied gradient is not reduced";
  return "";
}

std::string RankRules::incomplete_boundary() const {
  if (!normed_) return "the norm is missing";
  for (int unit = range_.first; unit < range_.last; ++unit) {
    if (!updated_.contains(unit)) return concat("unit ", unit, " is never updated");
    if (rules_.plan.publishes() && !published_.contains(unit))
      return concat("unit ", unit, " is never published");
  }
  return "";
}

}  // namespace fm::pipeline
