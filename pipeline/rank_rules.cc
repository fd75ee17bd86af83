#include "pipeline/rank_rules.h"

#include "core/check.h"
#include "pipeline/ring_places.h"

namespace fm::pipeline {

using core::concat;

RankRules::RankRules(const ProgramRules& rules, int pipe_rank)
    : rules_(rules),
      units_(rules.units),
      rank_(pipe_rank),
      tiles_(rules.units),
      ring_(static_cast<std::size_t>(rules.gradients.places), -1) {}

// Null: nothing to check besides operands and weights.
RankRules::Rule RankRules::rule_of(Op op) {
  struct OpRule {
    Op op;
    Rule rule;
  };
  static constexpr OpRule kRules[] = {
      {Op::kCount, &RankRules::count},
      {Op::kLoad, &RankRules::load},
      {Op::kSendAct, &RankRules::send},
      {Op::kRecvAct, &RankRules::receive},
      {Op::kSendGrad, &RankRules::send},
      {Op::kRecvGrad, &RankRules::receive},
      {Op::kGather, &RankRules::gather},
      {Op::kRelease, &RankRules::release},
      {Op::kForward, &RankRules::forward},
      {Op::kLoss, &RankRules::loss},
      {Op::kBackward, &RankRules::backward},
      {Op::kBackwardInput, &RankRules::backward_input},
      {Op::kBackwardWeight, &RankRules::backward_weight},
      {Op::kRecompute, &RankRules::recompute},
      {Op::kReduce, &RankRules::reduce},
      {Op::kRest, &RankRules::rest},
      {Op::kReduceTied, &RankRules::reduce_tied},
      {Op::kNorm, &RankRules::norm},
      {Op::kNormPart, &RankRules::norm_part},
      {Op::kRecvNorm, &RankRules::receive_norm},
      {Op::kSendNorm, &RankRules::send_norm},
      {Op::kValidate, &RankRules::validate},
      {Op::kFetch, &RankRules::fetch},
      {Op::kUpdate, &RankRules::update},
      {Op::kStore, &RankRules::store},
      {Op::kPublish, &RankRules::publish},
      {Op::kReport, &RankRules::report},
  };
  static constexpr auto kByOp = [] {
    std::array<Rule, kOpCount> rules{};
    for (const OpRule& each : kRules) rules[static_cast<std::size_t>(each.op)] = each.rule;
    return rules;
  }();
  return kByOp[static_cast<std::size_t>(op)];
}

std::string RankRules::check(const Instruction& instruction) {
  if (reported_) return "nothing may follow the report";
  if (rules_.validates && !validated_ && instruction.op != Op::kValidate &&
      !can_be_discarded(instruction.op)) {
    return "it cannot be undone, and the last step is not validated yet";
  }
  std::string reason = check_operands(instruction);
  if (reason.empty()) reason = check_weights(instruction);
  if (reason.empty()) reason = tiles_.check(instruction);
  if (!reason.empty()) return reason;
  const Rule rule = rule_of(instruction.op);
  return rule == nullptr ? "" : (this->*rule)(instruction);
}

std::string RankRules::check_operands(const Instruction& instruction) const {
  if (instruction.micro >= rules_.micros)
    return concat("there are only ", rules_.micros, " micro-batches");
  if (instruction.unit >= units_.count_with_tiles()) {
    return concat("there are only ", units_.count_with_tiles(), " units");
  }
  const bool of_others = row_of(instruction.op).meets == OpRow::Meets::kOwner;
  if (instruction.unit >= 0 && !of_others && !units_.owns(rank_, instruction.unit)) {
    return concat("unit ", instruction.unit, " lives on another pipe rank");
  }
  return "";
}

std::string RankRules::check_weights(const Instruction& instruction) {
  if (!units_.reads_weights(instruction) || rules_.plan.params == core::Home::kEveryRank) return "";
  const int unit = units_.unit_of(instruction);
  if (rules_.plan.params == core::Home::kOncePerHost) {
    return updated_.contains(unit) ? concat("owners are changing unit ", unit) : "";
  }
  if (!gathered_.contains(unit)) return concat("weights of unit ", unit, " are not gathered");
  if (updated_.contains(unit)) return concat("unit ", unit, " is updated already");
  unused_.erase(unit);
  return "";
}

Instruction RankRules::forward_of(int micro, int unit) const {
  if (unit == units_.head()) return {Op::kLoss, micro, -1};
  return {Op::kForward, micro, unit};
}

Instruction RankRules::backward_of(int micro, int unit) const {
  if (unit == units_.head()) return {Op::kLoss, micro, -1};
  return {Op::kBackward, micro, unit};
}

std::string RankRules::check_input(const Instruction& instruction) const {
  const std::optional<Handover> taken = units_.taken_by(instruction);
  if (!taken) return "";
  const char* const what = taken->gradient ? "its gradient comes " : "its input comes ";
  if (units_.crosses(*taken)) {
    const bool here = messages_.contains(taken->receive());
    return here ? "" : concat(what, "with ", print(taken->receive()));
  }
  if (made_.contains(*taken)) return "";
  const Instruction maker = taken->gradient ? backward_of(instruction.micro, taken->from())
                                            : forward_of(instruction.micro, taken->from());
  return concat(what, "from ", print(maker));
}

void RankRules::give(const Instruction& instruction) {
  for (const Handover& given : units_.given_by(instruction)) made_.insert(given);
}

std::string RankRules::count(const Instruction& /*at*/) {
  if (units_.evaluates()) return "evaluation counts with the loss";
  if (!units_.has_head(rank_)) return "only the head's pipe rank has labels to count";
  if (counted_) return "labels are counted already";
  counted_ = true;
  return "";
}

std::string RankRules::load(const Instruction& instruction) {
  if (!units_.has_embedding(rank_) && !units_.has_head(rank_)) {
    return "only the ends of the pipe load data";
  }
  if (!loaded_.insert(instruction.micro).second) {
    return concat("micro-batch ", instruction.micro, " is loaded already");
  }
  return "";
}

std::string RankRules::forward(const Instruction& instruction) {
  const bool tiled = units_.head_tiles().count() > 0;
  const bool head = instruction.unit == units_.head();
  if (head && !tiled) return "the head has no forward; Loss runs it";
  if (units_.is_embedding(instruction.unit) && !loaded_.contains(instruction.micro)) {
    return concat("micro-batch ", instruction.micro, " is not loaded");
  }
  std::string reason = check_input(instruction);
  if (!reason.empty() || head) return reason;  // Loss ends the head's forward
  if (!forward_.insert({instruction.micro, instruction.unit}).second)
    return "this forward has run already";
  give(instruction);
  return "";
}

std::string RankRules::loss(const Instruction& instruction) {
  if (!units_.has_head(rank_)) return "the head lives on another pipe rank";
  if (!counted_ && !units_.evaluates()) return "the loss divisor is not counted";
  if (!loaded_.contains(instruction.micro)) {
    return concat("labels of micro-batch ", instruction.micro, " are not loaded");
  }
  std::string reason = check_input(instruction);
  if (!reason.empty()) return reason;
  const MicroUnit here{instruction.micro, units_.head()};
  if (!forward_.insert(here).second) return "this loss has run already";
  if (units_.evaluates()) return "";
  input_.insert(here);
  weight_.insert(here);
  give(instruction);
  reason = take_tied_slot(instruction.micro);
  return reason.empty() ? take_gradient_slot(instruction.micro, units_.head()) : reason;
}

std::string RankRules::backward(const Instruction& instruction) {
  const std::string reason = backward_input(instruction);
  return reason.empty() ? backward_weight(instruction) : reason;
}

std::string RankRules::backward_input(const Instruction& instruction) {
  const MicroUnit here{instruction.micro, instruction.unit};
  if (units_.evaluates()) return "evaluation has no backward";
  if (instruction.unit == units_.head()) return "the head has no backward; Loss runs it";
  if (!units_.has_backward(instruction.unit)) return "nothing is trained in this unit or before it";
  if (!forward_.contains(here)) return "its forward has not run";
  if (input_.contains(here)) return "this backward has run already";
  std::string reason = check_input(instruction);
  if (!reason.empty()) return reason;
  if (rules_.recompute && units_.is_block(instruction.unit) && !recomputed_.contains(here)) {
    return concat("it needs ", print({Op::kRecompute, instruction.micro, instruction.unit}),
                  " first");
  }
  input_.insert(here);
  give(instruction);
  return "";
}

std::string RankRules::backward_weight(const Instruction& instruction) {
  const bool tile = units_.is_tile(instruction.unit);
  if (tile && units_.evaluates()) return "evaluation has no backward";
  if (tile && !counted_ && !units_.is_embedding(instruction.unit)) {
    return "the loss divisor is not counted";
  }
  if (!tile && !input_.contains({instruction.micro, instruction.unit}))
    return "its backward-input has not run";
  if (!weight_.insert({instruction.micro, instruction.unit}).second)
    return "this weight gradient is written already";
  return take_gradient_slot(instruction.micro, instruction.unit);
}

std::string RankRules::recompute(const Instruction& instruction) {
  if (units_.is_tile(instruction.unit)) return "";
  if (!rules_.recompute || !units_.is_block(instruction.unit) ||
      !units_.has_backward(instruction.unit)) {
    return "this plan does not recompute the unit";
  }
  if (!forward_.contains({instruction.micro, instruction.unit})) return "its forward has not run";
  if (!units_.starts_segment(instruction.unit) &&
      !recomputed_.contains({instruction.micro, instruction.unit - 1})) {
    return concat("it needs ", print({Op::kRecompute, instruction.micro, instruction.unit - 1}),
                  " first");
  }
  if (!recomputed_.insert({instruction.micro, instruction.unit}).second)
    return "this recomputation has run already";
  return "";
}

std::string RankRules::send(const Instruction& instruction) {
  const Handover sent{instruction.op == Op::kSendGrad, instruction.micro, instruction.unit};
  const bool exists = sent.from() >= 0 && sent.from() < units_.unit_count();
  if (!exists || !units_.crosses(sent)) return "there is no pipe rank to send to";
  if (!units_.owns(rank_, sent.from())) {
    return concat("unit ", sent.from(), " lives on another pipe rank");
  }
  if (!made_.contains(sent)) return "what it sends is not computed yet";
  if (!messages_.insert(instruction).second) return "this was sent already";
  return "";
}

std::string RankRules::receive(const Instruction& instruction) {
  const Handover received{instruction.op == Op::kRecvGrad, instruction.micro, instruction.unit};
  const bool exists = received.from() >= 0 && received.from() < units_.unit_count();
  if (!exists || !units_.crosses(received)) return "there is no pipe rank to receive from";
  if (!messages_.insert(instruction).second) return "this was received already";
  return "";
}

std::string RankRules::gather(const Instruction& instruction) {
  if (rules_.plan.params != core::Home::kOneSliceEach) return "every rank sees the weights whole";
  if (!gathered_.insert(instruction.unit).second)
    return concat("unit ", instruction.unit, " is gathered already");
  unused_.insert(instruction.unit);
  return "";
}

std::string RankRules::release(const Instruction& instruction) {
  if (gathered_.erase(instruction.unit) == 0)
    return concat("unit ", instruction.unit, " is not gathered");
  if (unused_.contains(instruction.unit))
    return concat("nothing read the gathered unit ", instruction.unit);
  return "";
}

std::string RankRules::take_ring_place(int unit) {
  if (!has_place_in_ring(rules_.gradients, units_, unit)) return "";
  if (rested_.contains(unit)) return concat("the gradient of unit ", unit, " rests already");
  int& here = ring_[static_cast<std::size_t>(units_.index_on_rank(unit)) % ring_.size()];
  if (here >= 0 && here != unit) {
    return concat("its place still holds the gradient of unit ", here);
  }
  here = unit;
  return "";
}

void RankRules::leave_ring_place(int unit) {
  if (!has_place_in_ring(rules_.gradients, units_, unit)) return;
  ring_[static_cast<std::size_t>(units_.index_on_rank(unit)) % ring_.size()] = -1;
}

std::string RankRules::take_gradient_slot(int micro, int unit) {
  std::string reason = take_ring_place(unit);
  if (!reason.empty()) return reason;
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
  if (!units_.one_tied_gradient || !rules_.plan.reduce_every_micro) return "";
  if (tied_micro_ >= 0) {
    return concat("the tied matrix's slot still holds micro-batch ", tied_micro_,
                  ", which waits for the embedding's Reduce");
  }
  tied_micro_ = micro;
  return "";
}

std::string RankRules::reduce(const Instruction& instruction) {
  const bool every_micro = rules_.plan.reduce_every_micro;
  if (every_micro != (instruction.micro >= 0)) {
    return every_micro ? "this plan reduces every micro-batch" : "this plan reduces once per step";
  }
  const MicroUnit here{instruction.micro, instruction.unit};
  if (reduced_.contains(here)) return "this gradient is reduced already";
  if (every_micro && gradient_slot_ != here) return "its gradient is not there";
  if (every_micro && instruction.micro > 0 &&
      !reduced_.contains({instruction.micro - 1, instruction.unit})) {
    return "gradients are added in the order of micro-batches";
  }
  for (int micro = 0; !every_micro && micro < rules_.micros; ++micro) {
    if (!weight_.contains({micro, instruction.unit})) {
      return concat("the gradient of micro-batch ", micro, " is missing");
    }
  }
  gradient_slot_ = {-1, -1};
  if (instruction.unit == 0) tied_micro_ = -1;
  reduced_.insert(here);
  return "";
}

bool RankRules::reduced(int unit) const {
  return reduced_.contains({rules_.plan.reduce_every_micro ? rules_.micros - 1 : -1, unit});
}

std::string RankRules::rest(const Instruction& instruction) {
  if (!rests(rules_.gradients, units_, instruction.unit)) return "its gradient stays in memory";
  if (!reduced(instruction.unit)) return "its gradient is not reduced";
  if (fetched_.contains(instruction.unit)) return "it is fetched already";
  if (!rested_.insert(instruction.unit).second) return "it rests already";
  leave_ring_place(instruction.unit);
  return "";
}

std::string RankRules::reduce_tied(const Instruction& /*at*/) {
  if (!units_.has_tied_end(rank_)) return "this pipe rank holds no end of a tied matrix";
  if (tied_) return "the tied gradient is reduced already";
  if (units_.has_embedding(rank_) && !reduced(0)) return "the embedding's gradient is not reduced";
  if (units_.has_head(rank_) && !reduced(units_.head())) {
    return "the head's gradient is not reduced";
  }
  tied_ = true;
  return "";
}

std::string RankRules::update(const Instruction& instruction) {
  const bool early = updates_early(rules_.gradients, units_, instruction.unit);
  if (!normed_ && !early) return "the clipping factor needs the norm";
  if (!reduced(instruction.unit)) return "its gradient is not reduced";
  if (rules_.awake > 0 && !fetched_.contains(instruction.unit))
    return concat("the state of unit ", instruction.unit, " is not fetched");
  if (takes_from_slot(rules_.gradients, units_, instruction.unit) &&
      !gathered_.contains(instruction.unit)) {
    return concat("weights of unit ", instruction.unit, " are not gathered");
  }
  leave_ring_place(instruction.unit);
  if (!updated_.insert(instruction.unit).second)
    return concat("unit ", instruction.unit, " is updated already");
  return "";
}

std::string RankRules::publish(const Instruction& instruction) {
  if (!rules_.plan.publishes()) return "this plan publishes nothing";
  if (!updated_.contains(instruction.unit))
    return concat("unit ", instruction.unit, " is not updated");
  if (!published_.insert(instruction.unit).second)
    return concat("unit ", instruction.unit, " is published already");
  return "";
}

std::string RankRules::fetch(const Instruction& instruction) {
  if (rules_.awake == 0) return "in this plan no state sleeps";
  if (!units_.has_backward(instruction.unit))
    return concat("unit ", instruction.unit, " is never updated");
  if (!fetched_.insert(instruction.unit).second)
    return concat("unit ", instruction.unit, " is fetched already");
  if (rests(rules_.gradients, units_, instruction.unit)) {
    if (rested_.erase(instruction.unit) == 0) return "its gradient does not rest";
    std::string reason = take_ring_place(instruction.unit);
    if (!reason.empty()) return reason;
  }
  for (const int place : ring_places(units_, instruction.unit, rules_.ring())) {
    const auto [at, free] = occupied_.emplace(place, instruction.unit);
    if (!free) return concat("unit ", at->second, " is in its place, and not stored yet");
  }
  return "";
}

std::string RankRules::store(const Instruction& instruction) {
  if (rules_.awake == 0) return "in this plan no state sleeps";
  if (!updated_.contains(instruction.unit))
    return concat("unit ", instruction.unit, " is not updated");
  if (!stored_.insert(instruction.unit).second)
    return concat("unit ", instruction.unit, " is stored already");
  std::erase_if(occupied_, [&](const auto& place) { return place.second == instruction.unit; });
  return "";
}

std::string RankRules::report(const Instruction& /*at*/) {
  std::string missing = incomplete_compute();
  if (missing.empty()) missing = incomplete_exchange();
  if (missing.empty() && !units_.evaluates()) missing = incomplete_boundary();
  if (missing.empty()) reported_ = true;
  return missing;
}

std::string RankRules::check_end() const { return reported_ ? "" : "the report is missing"; }

std::string RankRules::incomplete_compute() const {
  if (!gathered_.empty()) return concat("unit ", *gathered_.begin(), " is never released");
  for (int micro = 0; micro < rules_.micros; ++micro) {
    for (const int unit : units_.units_of(rank_)) {
      if (!forward_.contains({micro, unit})) {
        return concat(print(forward_of(micro, unit)), " is missing");
      }
      if (units_.has_backward(unit) && !weight_.contains({micro, unit})) {
        return concat(print(backward_of(micro, unit)), " is missing");
      }
    }
  }
  return "";
}

std::string RankRules::incomplete_exchange() const {
  std::vector<Instruction> due;
  for (int micro = 0; micro < rules_.micros; ++micro) {
    for (const int unit : units_.units_of(rank_)) {
      if (units_.is_tile(unit)) continue;
      const Handover down{false, micro, unit + 1};
      const Handover up{true, micro, unit - 1};
      const Handover back{true, micro, unit};
      if (unit < units_.head() && units_.crosses(down)) due.push_back(down.send());
      const bool returns = unit < units_.head() && units_.has_backward(unit);
      if (returns && units_.crosses(back)) due.push_back(back.receive());
      if (units_.gives_gradient(unit) && units_.crosses(up)) due.push_back(up.send());
    }
  }
  for (const Instruction& each : due) {
    if (!messages_.contains(each)) return concat(print(each), " is missing");
  }
  return "";
}

std::string RankRules::incomplete_boundary() const {
  if (!normed_) return "the norm is missing";
  for (const int unit : units_.units_of(rank_)) {
    if (!units_.has_backward(unit)) continue;
    if (!updated_.contains(unit)) return concat("unit ", unit, " is never updated");
    if (rules_.plan.publishes() && !published_.contains(unit)) {
      return concat("unit ", unit, " is never published");
    }
    if (rules_.awake > 0 && !stored_.contains(unit)) {
      return concat("unit ", unit, " is never stored");
    }
  }
  return "";
}

// The rules of the norm, whole or in parts, and of the validation of the previous step.

std::string RankRules::norm(const Instruction& /*at*/) {
  if (units_.evaluates()) return "evaluation has no gradients";
  if (normed_ || parted_) return "the norm is known already";
  std::string missing = incomplete_reductions();
  if (!missing.empty()) return missing;
  normed_ = true;
  return "";
}

// A norm in parts: rank 0 has its own part, every other rank waits for the previous ones; all but
// the last send on the parts that they know, and then update.
std::string RankRules::norm_part(const Instruction& /*at*/) {
  if (!rules_.validates) return "no step behind this one would validate it";
  if (normed_ || parted_) return "the norm is known already";
  std::string missing = incomplete_reductions();
  if (!missing.empty()) return missing;
  parted_ = true;
  received_ = rank_ == 0;
  return "";
}

std::string RankRules::receive_norm(const Instruction& /*at*/) {
  if (rank_ == 0) return "there is no pipe rank before this one";
  if (!parted_) return "this pipe rank's own part of the norm is not known";
  if (received_) return "this was received already";
  received_ = true;
  normed_ = rank_ + 1 == units_.pipe_ranks();
  return "";
}

std::string RankRules::send_norm(const Instruction& /*at*/) {
  if (rank_ + 1 == units_.pipe_ranks()) return "there is no pipe rank behind this one";
  if (!received_) return "what it sends is not known yet";
  if (normed_) return "this was sent already";
  normed_ = true;
  return "";
}

std::string RankRules::validate(const Instruction& /*at*/) {
  if (!rules_.validates) return "this plan validates nothing";
  if (validated_) return "the last step is validated already";
  validated_ = true;
  return "";
}

std::string RankRules::incomplete_reductions() const {
  for (const int unit : units_.units_of(rank_)) {
    if (!units_.has_backward(unit)) continue;
    if (!reduced(unit)) return concat("the gradient of unit ", unit, " is not reduced");
  }
  if (units_.has_tied_end(rank_) && !tied_) return "the tied gradient is not reduced";
  return "";
}

}  // namespace fm::pipeline
