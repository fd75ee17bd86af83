// What every instruction does: a few lines each, moving a slice or calling a unit of the model.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/trace.h"
#include "engine/step/hidden_exchange.h"
#include "engine/step/rank_state.h"
#include "pipeline/executor.h"
#include "text/data/batch_stream.h"

namespace fm::engine {

// What the step needs beside the plan.
struct StepRequest {
  std::int64_t step = 1;              // for fault points and dropout
  optim::UpdateScalars scalars = {};  // learning rate and update count; the scale is set by norm
  double gradient_clipping = 0.0;     // 0: off
  LossReduction loss_reduction = LossReduction::kToken;
  double loss_scale = 1.0;  // gradients carry it until the update
  std::uint64_t seed = 0;   // of dropout
  bool apply = true;        // false: stop before the update (gradients are looked at)
  // The update does not wait for the whole norm: validate_step, with the rows of the step behind
  // this one, tells what came of it.
  bool ends_ahead = false;
  // With ends_ahead: whether all ranks shall hear that this one asks (of signals); read at the end.
  std::function<bool()> asks = {};
};

// The same on every rank after the step.
struct StepResult {
  double loss = 0.0;       // mean over the step's counted tokens (or mean of means)
  double loss_sum = 0.0;   // evaluation: sum over this program's counted tokens
  std::int64_t valid = 0;  // labels that counted
  double grad_norm = 0.0;  // before clipping, without the loss scale
  // Loss or gradient was not finite, or in fp16 beyond what that holds: nothing was changed.
  bool skipped = false;
  bool clipped = false;
  // Of a step that ended ahead: its update, and what followed from it, was undone and done again.
  bool redone = false;
  bool asked = false;  // some rank did
};

// What pipe ranks hand on at the end of a step that ends ahead: of those so far, then of all.
struct NormState {
  double squared = 0.0;
  double loss_sum = 0.0, valid = 0.0;  // of the head's rank
  double overflows = 0.0, asks = 0.0;  // 0: none
  double holds = 0.0;                  // ranks that did not update
};

// Where a non-finite value appeared first on this rank.
struct NonFinite {
  int micro = -1;
  int unit = -1;
  std::string parameter;  // "" when only the loss is known
};

// Invariant: between steps no buffer is lent, and no message is in flight but those of publications
//            where the plan overlaps: who reads the weights waits for them. Behind a step that
//            ended ahead, validate_step comes first; what it ran stays lent for the train_step that
//            follows it with the same rows.
// Thread:    the rank's thread.
// Lifetime:  state, stream and clock outlive it.
class StepRuntime : public pipeline::StepHandler {
 public:
  StepRuntime(RankState& state, core::PhaseClock& clock);

  // Runs the training program on the loaded step of `stream`. Collective.
  StepResult train_step(const data::BatchStream& stream, const StepRequest& request);
  // Behind a step that ended ahead: runs the forwards of the next one until all is known of the
  // last, whose result it returns. Where that one's update was wrong it is undone and done again,
  // or left out, and the forwards are forgotten. Of `request` it reads step and seed. Collective.
  StepResult validate_step(const data::BatchStream& next, const StepRequest& request);
  // Runs the evaluation program: loss_sum and valid.
  StepResult evaluate_step(const data::BatchStream& stream);
  // Everything that travels on behind a step has arrived; before its memory dies. Collective.
  void settle();
  // Runs the step again without update and watches every gradient as it is written; a step in fp16
  // has done that. Collective.
  std::optional<NonFinite> locate_non_finite(const data::BatchStream& stream,
                                             const StepRequest& request);

  void run(const pipeline::Instruction& at) override;

 private:
  struct Gathered {
    void* slot = nullptr;
    comm::Pending own, frozen, tied;  // first waited for by who reads them
  };
  using MicroUnit = std::pair<int, int>;

  StepResult run_program(const std::vector<pipeline::Program>& by_pipe_rank,
                         const data::BatchStream& stream, const StepRequest& request);
  void end_of_program();

  // One for each instruction; `micro` of reduce -1: once per step.
  void count();
  void send_act(int micro, int unit);
  void recv_act(int micro, int unit);
  void send_grad(int micro, int unit);
  void recv_grad(int micro, int unit);
  void gather(int unit);
  void release(int unit);
  void forward(int micro, int unit);
  void loss(int micro);
  void backward_input(int micro, int unit);
  void backward_weight(int micro, int unit);
  void recompute(int micro, int unit);
  void reduce(int micro, int unit);
  void reduce_tied();
  void norm();
  void norm_part();
  void recv_norm();
  void send_norm();
  void validate();
  void update(int unit);
  void publish(int unit);
  void report();

  // `reads_weights`: false leaves them out, where no unit's weights are at hand.
  std::optional<model::StepDropout> dropout_of(int micro) const;
  model::UnitCall call_of(int micro, int unit, bool reads_weights = true);
  model::Weights weights_of(int unit);
  model::Gradients destinations(int micro, int unit, bool& assign);
  // Whole weights of a group of `unit`, which begins `behind` elements into the unit's slot.
  void* whole_weights(int unit, int group, core::Elements behind);
  void wait_for_weights(int unit);
  void publish_group(int group);
  void wait_for_publication(int group);
  void wait_for_count();
  double weight_of_token(int micro) const;
  float limit_of_own() const;  // 0: none
  bool overflows();
  std::array<double, 2> own_loss();
  NormState exchange_loss();
  static float judge(const StepRequest& request, const NormState& state, StepResult& result);
  bool is_last() const { return state_.at.pipe_rank + 1 == state_.plan.mesh.pipe; }
  bool own_overflow();
  bool changes(int unit) const;
  void discard_forwards();
  void redo_update();
  void scan(int micro, int unit, const model::Gradients& written);
  // Whether a unit keeps nothing for a backward, which never comes.
  bool passes(int unit) const { return forward_only_ || !units().has_backward(unit); }
  const model::Unit& unit_at(int unit) const {
    return *state_.model.units[static_cast<std::size_t>(unit)];
  }
  const pipeline::Placement& units() const { return state_.plan.units(); }

  RankState& state_;
  core::PhaseClock& clock_;
  HiddenExchange exchange_;
  const data::BatchStream* stream_ = nullptr;
  StepRequest request_;
  StepResult result_;
  // A step that ended ahead and is not validated.
  struct Ahead {
    StepRequest request;
    StepResult result;
    bool updated = false;
  };
  std::optional<Ahead> ahead_;
  NormState known_, told_;             // of the norm; told_ is on its way to the pipe rank before
  std::vector<double> numbers_;        // of the norm, as they come
  comm::Pending handed_[2], telling_;  // of known_ and its numbers to the rank behind, of told_
  bool holds_ = false;                 // this rank does not update before all is known
  std::size_t begun_ = 0;              // instructions of the next program that have run
  bool forward_only_ = false;
  bool watching_ = false;
  std::optional<NonFinite> found_;  // of the last program
  std::int64_t divisor_ = 0;
  std::vector<double> slot_loss_;          // by micro, this data rank
  std::vector<double> all_losses_;         // gathered
  std::map<MicroUnit, Hidden> inputs_;     // of (micro, unit)
  std::map<MicroUnit, Hidden> gradients_;  // of the output of (micro, unit)
  std::map<MicroUnit, void*> kept_, parked_;
  std::map<int, Gathered> gathered_;           // by unit
  std::map<int, comm::Pending> publications_;  // by group
  comm::Pending counting_;                     // divisor_ is being summed
};

}  // namespace fm::engine
