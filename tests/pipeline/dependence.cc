#include "tests/pipeline/dependence.h"

#include <algorithm>

#include "pipeline/gradient_ring.h"
#include "pipeline/ring_places.h"

namespace fm::pipeline {
namespace {

using enum ValueKind;

class Table {
 public:
  Table(const StepForm& form, int pipe_rank)
      : form_(form),
        units_(form.units.units_of(pipe_rank)),
        last_(pipe_rank + 1 == form.units.pipe_ranks()) {}

  void add(const Instruction& at) {
    const bool forward = at.op == Op::kCount || at.op == Op::kLoad || at.op == Op::kGather ||
                         at.op == Op::kRelease || at.op == Op::kForward;
    const bool message = at.op == Op::kSendAct || at.op == Op::kRecvAct;
    if (!forward && !message) uses({kValidated, -1, -1});
    if (message) uses({kOnTheWire, -1, kDown});  // the others', too, stand on one side of theirs
    const int k = at.micro;
    const int u = at.unit;
    switch (at.op) {
      case Op::kCount: return makes({kDivisor, -1, -1});
      case Op::kLoad: return makes({kBatch, k, -1});
      case Op::kSendAct: return uses({kHidden, k, u - 1}), makes({kOnTheWire, k, kDown});
      case Op::kRecvAct: return makes({kHidden, k, u - 1});
      case Op::kSendGrad: return uses({kHiddenGrad, k, u}), makes({kOnTheWire, k, kUp});
      case Op::kRecvGrad:  // comes back only after the hidden state went there
        return uses({kOnTheWire, k, kDown}), makes({kHiddenGrad, k, u});
      case Op::kGather:
      case Op::kRelease: return makes({kGathered, -1, u});
      case Op::kForward:
        return reads_input(k, u), uses({kGathered, -1, u}), makes({kHidden, k, u}),
               makes({kKept, k, u});
      case Op::kLoss: return loss(k);
      case Op::kBackward: return backward_input(k, u), reads_input(k, u), writes_gradient(u);
      case Op::kBackwardInput: return backward_input(k, u), makes({kParked, k, u});
      case Op::kBackwardWeight: return uses({kParked, k, u}), reads_input(k, u), writes_gradient(u);
      case Op::kRecompute: return reads_input(k, u), uses({kGathered, -1, u}), makes({kKept, k, u});
      case Op::kReduce: return takes_gradient(u), makes({kReduced, -1, u});
      case Op::kReduceTied: return reduce_tied();
      case Op::kNorm: return norm();
      case Op::kNormPart: return norm_part();
      case Op::kRecvNorm: return receive_norm();
      case Op::kSendNorm: return send_norm();
      case Op::kValidate: return makes({kValidated, -1, -1}), makes({kOnTheWire, -1, kDown});
      case Op::kRest:
        return uses({kReduced, -1, u}), makes({kFetched, -1, u}), takes_gradient_place(u);
      case Op::kFetch: return makes({kFetched, -1, u}), takes_places(u), takes_gradient_place(u);
      case Op::kStore: return makes({kFetched, -1, u}), takes_places(u);
      case Op::kUpdate:
        return uses({kNorm, -1, -1}), uses({kReduced, -1, u}), makes({kFetched, -1, u}),
               makes({kUpdated, -1, u}), takes_gradient_place(u);
      case Op::kPublish: return uses({kUpdated, -1, u}), makes({kPublished, -1, u});
      case Op::kReport: effects_.ends_the_step = true; return;
    }
  }

  Effects effects() const { return effects_; }

 private:
  static constexpr int kDown = 0;
  static constexpr int kUp = 1;
  static constexpr int kPart = 0;
  static constexpr int kBefore = 1;

  void uses(const Value& value) { effects_.consumes.push_back(value); }
  void makes(const Value& value) { effects_.produces.push_back(value); }
  void reads_input(int micro, int unit) {
    if (unit == 0) return uses({kBatch, micro, -1});
    uses({kHidden, micro, unit - 1});
  }
  void takes_places(int unit) {
    for (const int place : ring_places(form_.units, unit, form_.ring)) {
      makes({kRingPlace, -1, place});
    }
  }
  void takes_gradient_place(int unit) {
    if (form_.gradient_places == 0 || waits_for_other_end(form_.units, unit)) return;
    makes({kGradientPlace, -1, form_.units.index_on_rank(unit) % form_.gradient_places});
  }
  // Where micro-batches are added before they are reduced, in any order.
  void writes_gradient(int unit) {
    if (form_.reduce_every_micro) return makes({kGradientSlot, -1, -1});
    uses({kGradient, -1, unit});
  }
  void takes_gradient(int unit) {
    if (form_.reduce_every_micro) return makes({kGradientSlot, -1, -1});
    makes({kGradient, -1, unit});
  }
  void loss(int micro) {  // in place: the hidden state becomes its gradient
    const int head = form_.units.head();
    uses({kBatch, micro, -1}), uses({kDivisor, -1, -1}), uses({kGathered, -1, head});
    uses({kHidden, micro, head - 1}), makes({kHidden, micro, head - 1});
    makes({kHiddenGrad, micro, head - 1}), writes_gradient(head);
  }
  void backward_input(int micro, int unit) {
    uses({kKept, micro, unit}), uses({kHiddenGrad, micro, unit});
    if (form_.units.is_block(unit)) uses({kGathered, -1, unit});
    makes({kHiddenGrad, micro, unit - 1});
  }
  // The other end's gradient needs everything this rank sends.
  void reduce_tied() {
    makes({kReduced, -1, 0}), makes({kReduced, -1, form_.units.head()}), needs_all_sent();
  }
  // One number of all ranks: their gradients need everything this rank sends.
  void norm() {
    for (const int unit : units_) uses({kReduced, -1, unit});
    needs_all_sent(), makes({kNorm, -1, -1});
  }
  void needs_all_sent() { needs_all_sent(kDown), needs_all_sent(kUp); }
  void needs_all_sent(int direction) {
    for (int micro = 0; micro < form_.micros; ++micro) uses({kOnTheWire, micro, direction});
  }
  void norm_part() {
    for (const int unit : units_) uses({kReduced, -1, unit});
    makes({kNorm, kPart, -1});
  }
  // The rank before sends it when it has every gradient of this one.
  void receive_norm() {
    uses({kNorm, kPart, -1}), needs_all_sent(kUp), makes({kNorm, kBefore, -1});
    if (last_) makes({kNorm, -1, -1});
  }
  // The rank behind takes it when it has every hidden state of this one.
  void send_norm() {
    uses({kNorm, kPart, -1}), uses({kNorm, kBefore, -1}), needs_all_sent(kDown);
    makes({kNorm, -1, -1});
  }

  const StepForm& form_;
  const std::vector<int>& units_;
  bool last_;  // pipe rank
  Effects effects_;
};

// Values that `made` leaves behind and `other` touches.
void add_conflicts(const std::vector<Value>& made, const std::vector<Value>& other,
                   std::vector<Value>& out) {
  for (const Value& value : made) {
    if (std::find(other.begin(), other.end(), value) != other.end()) out.push_back(value);
  }
}

}  // namespace

Effects effects_of(const Instruction& at, const StepForm& form, int pipe_rank) {
  Table table(form, pipe_rank);
  table.add(at);
  return table.effects();
}

Dependence dependence(const Effects& first, const Effects& second) {
  if (first.ends_the_step || second.ends_the_step) return Dependence::kHere;
  std::vector<Value> conflicts;
  add_conflicts(first.produces, second.consumes, conflicts);
  add_conflicts(first.produces, second.produces, conflicts);
  add_conflicts(second.produces, first.consumes, conflicts);
  if (conflicts.empty()) return Dependence::kNone;
  const bool here = std::any_of(conflicts.begin(), conflicts.end(),
                                [](const Value& value) { return value.kind != kOnTheWire; });
  return here ? Dependence::kHere : Dependence::kThroughOtherRanks;
}

}  // namespace fm::pipeline
