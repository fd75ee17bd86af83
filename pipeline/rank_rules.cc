#include "pipeline/rank_rules.h"

#include "core/check.h"

namespace fm::pipeline {
namespace {

using core::concat;

constexpr std::pair<int, int> kFree{-1, -1};

bool before(const Instruction& a, const Instruction& b) {
  return std::pair(a.op, a.micro) < std::pair(b.op, b.micro);
}

std::string picture(Op op, int micro, int unit) { return print(Instruction{op, micro, unit}); }

}  // namespace

RankRules::RankRules(const ProgramRules& rules, int pipe_rank)
    : rules_(rules),
      row_(rules.row),
      rank_(pipe_rank),
      range_(rules.row.ranges[static_cast<std::size_t>(pipe_rank)]),
      body_(rules.row.body(pipe_rank)),
      exchanged_(before) {}

std::string RankRules::check(const Instruction& at) {
  if (reported_) return "nothing may follow the report";
  std::string reason = check_operands(at);
  if (reason.empty()) reason = check_weights(at);
  return reason.empty() ? dispatch(at) : reason;
}

std::string RankRules::check_operands(const Instruction& at) const {
  if (at.micro >= rules_.micros) return concat("there are only ", rules_.micros, " micro-batches");
  if (at.unit >= 0 && !range_.contains(at.unit)) {
    return concat("unit ", at.unit, " lives on another pipe rank");
  }
  return "";
}

std::string RankRules::check_weights(const Instruction& at) {
  if (!row_.reads_weights(at) || rules_.plan.params == core::Home::kEveryRank) return "";
  const int unit = row_.unit_of(at);
  if (rules_.plan.params == core::Home::kOncePerHost) {
    return updated_.contains(unit) ? concat("owners are changing unit ", unit) : "";
  }
  if (!gathered_.contains(unit)) return concat("weights of unit ", unit, " are not gathered");
  unused_.erase(unit);
  return "";
}

std::string RankRules::dispatch(const Instruction& at) {
  switch (at.op) {
    case Op::kCount: return count();
    case Op::kLoad: return load(at.micro);
    case Op::kSendAct:
    case Op::kSendGrad: return send(at);
    case Op::kRecvAct:
    case Op::kRecvGrad: return receive(at);
    case Op::kGather: return gather(at.unit);
    case Op::kRelease: return release(at.unit);
    case Op::kForward: return forward(at.micro, at.unit);
    case Op::kLoss: return loss(at.micro);
    case Op::kBackward: {
      const std::string reason = backward_input(at.micro, at.unit);
      return reason.empty() ? backward_weight(at.micro, at.unit) : reason;
    }
    case Op::kBackwardInput: return backward_input(at.micro, at.unit);
    case Op::kBackwardWeight: return backward_weight(at.micro, at.unit);
    case Op::kRecompute: return recompute(at.micro, at.unit);
    case Op::kReduce: return reduce(at.micro, at.unit);
    case Op::kReduceTied: return reduce_tied();
    case Op::kNorm: return norm();
    case Op::kFetch:
    case Op::kStore: return "this plan offloads nothing";
    case Op::kUpdate: return update(at.unit);
    case Op::kPublish: return publish(at.unit);
    case Op::kReport: return report();
  }
  return "unknown instruction";
}

std::string RankRules::count() {
  if (rules_.forward_only) return "evaluation counts with the loss";
  if (!row_.is_last(rank_)) return "only the last pipe rank has labels to count";
  if (counted_) return "labels are counted already";
  counted_ = true;
  return "";
}

std::string RankRules::load(int micro) {
  if (!row_.is_first(rank_) && !row_.is_last(rank_)) return "only the ends of the pipe load data";
  if (!loaded_.insert(micro).second) return concat("micro-batch ", micro, " is loaded already");
  return "";
}

std::string RankRules::forward(int micro, int unit) {
  if (!body_.contains(unit)) return "the head has no forward; Loss runs it";
  if (unit == 0 && !loaded_.contains(micro)) return concat("micro-batch ", micro, " is not loaded");
  if (unit == body_.first && !row_.is_first(rank_) &&
      !exchanged_.contains({Op::kRecvAct, micro, -1})) {
    return concat("its input comes with ", picture(Op::kRecvAct, micro, -1));
  }
  if (unit > body_.first && !forward_.contains({micro, unit - 1})) {
    return concat("its input comes from ", picture(Op::kForward, micro, unit - 1));
  }
  if (!forward_.insert({micro, unit}).second) return "this forward has run already";
  return "";
}

std::string RankRules::loss(int micro) {
  if (!row_.is_last(rank_)) return "the head is on the last pipe rank";
  if (!counted_ && !rules_.forward_only) return "the loss divisor is not counted";
  if (!loaded_.contains(micro)) return concat("labels of micro-batch ", micro, " are not loaded");
  if (!forward_.contains({micro, body_.last - 1})) {
    return concat("its input comes from ", picture(Op::kForward, micro, body_.last - 1));
  }
  if (!lost_.insert(micro).second) return "this loss has run already";
  if (rules_.forward_only) return "";
  const std::string reason = take_tied_slot(micro);
  return reason.empty() ? take_gradient_slot(micro, row_.head()) : reason;
}

std::string RankRules::backward_input(int micro, int unit) {
  if (rules_.forward_only) return "evaluation has no backward";
  if (!body_.contains(unit)) return "the head has no backward; Loss runs it";
  if (!forward_.contains({micro, unit})) return "its forward has not run";
  if (input_.contains({micro, unit})) return "this backward has run already";
  if (parked_ != kFree) {
    return concat("what is parked waits for ",
                  picture(Op::kBackwardWeight, parked_.first, parked_.second));
  }
  if (unit < body_.last - 1 && !input_.contains({micro, unit + 1})) {
    return concat("its gradient comes from ", picture(Op::kBackward, micro, unit + 1));
  }
  const bool last_of_rank = unit == body_.last - 1;
  if (last_of_rank && row_.is_last(rank_) && !lost_.contains(micro)) {
    return concat("its gradient comes from ", picture(Op::kLoss, micro, -1));
  }
  if (last_of_rank && !row_.is_last(rank_) && !exchanged_.contains({Op::kRecvGrad, micro, -1})) {
    return concat("its gradient comes with ", picture(Op::kRecvGrad, micro, -1));
  }
  if (rules_.recompute && row_.is_block(unit) && recompute_slot_ != MicroUnit{micro, unit}) {
    return concat("it needs ", picture(Op::kRecompute, micro, unit), " first");
  }
  input_.insert({micro, unit});
  parked_ = {micro, unit};
  return "";
}

std::string RankRules::backward_weight(int micro, int unit) {
  if (!input_.contains({micro, unit})) return "its backward-input has not run";
  if (!weight_.insert({micro, unit}).second) return "this weight gradient is written already";
  if (recompute_slot_ == MicroUnit{micro, unit}) recompute_slot_ = kFree;
  parked_ = kFree;  // nothing else can be: see backward_input
  return take_gradient_slot(micro, unit);
}

std::string RankRules::recompute(int micro, int unit) {
  if (!rules_.recompute || !row_.is_block(unit)) return "this plan does not recompute the unit";
  if (!forward_.contains({micro, unit})) return "its forward has not run";
  if (recompute_slot_ != kFree) {
    return concat("the recomputation of ", recompute_slot_.first, ".", recompute_slot_.second,
                  " still waits for its backward");
  }
  if (!recomputed_.insert({micro, unit}).second) return "this recomputation has run already";
  recompute_slot_ = {micro, unit};
  return "";
}

std::string RankRules::send(const Instruction& at) {
  const bool act = at.op == Op::kSendAct;
  if (act ? row_.is_last(rank_) : row_.is_first(rank_)) return "there is no pipe rank to send to";
  const bool made = act ? forward_.contains({at.micro, body_.last - 1})
                        : input_.contains({at.micro, body_.first});
  if (!made) return "what it sends is not computed yet";
  if (!exchanged_.insert(at).second) return "this was sent already";
  return "";
}

std::string RankRules::receive(const Instruction& at) {
  const bool act = at.op == Op::kRecvAct;
  if (act ? row_.is_first(rank_) : row_.is_last(rank_)) {
    return "there is no pipe rank to receive from";
  }
  if (!exchanged_.insert(at).second) return "this was received already";
  return "";
}

std::string RankRules::gather(int unit) {
  if (rules_.plan.params != core::Home::kOneSliceEach) return "every rank sees the weights whole";
  if (!gathered_.insert(unit).second) return concat("unit ", unit, " is gathered already");
  unused_.insert(unit);
  return "";
}

std::string RankRules::release(int unit) {
  if (gathered_.erase(unit) == 0) return concat("unit ", unit, " is not gathered");
  if (unused_.contains(unit)) return concat("nothing read the gathered unit ", unit);
  return "";
}

}  // namespace fm::pipeline
