// What every instruction does: a few lines each, moving a slice or calling a unit of the model.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/answers.h"
#include "core/phases.h"
#include "engine/step/batch_copies.h"
#include "engine/step/gradient_scan.h"
#include "engine/step/hidden_exchange.h"
#include "engine/step/publications.h"
#include "engine/step/rank_state.h"
#include "engine/step/step_ahead.h"
#include "engine/step/step_result.h"
#include "pipeline/executor.h"
#include "text/data/batch_stream.h"

namespace fm::engine {

// Invariant: between steps no buffer is lent, and no message is in flight but those of publications
//            where the plan overlaps: who reads the weights waits for them. After a speculative
//            step, validate_step comes first; the forwards that it ran stay allocated for the
//            train_step that follows it with the same rows.
// Thread:    the rank's thread.
// Lifetime:  state, stream, clock and box outlive it.
class StepRuntime : public pipeline::StepHandler {
 public:
  // `box` may be null.
  StepRuntime(RankState& state, core::PhaseClock& clock, core::BlackBox* box = nullptr);

  // Runs the training program on the loaded step of `stream`. Collective.
  StepResult train_step(const data::BatchStream& stream, const StepRequest& request);
  // After a speculative step: runs the forwards of the next one until the result of the last is
  // final, and returns that. Where the last one's update was wrong it is undone and done again, or
  // left out, and the forwards are forgotten. Of `request` it reads step and seed. Collective.
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
  void begin_head_tiles(int micro);
  model::UnitCall call_of_tile(int micro, int tile, bool reads_weights);
  void forward_tile(int micro, int unit);
  void backward_tile(int micro, int unit);
  void pass_head_tile(int micro, int unit, model::TilePass pass,
                      const model::TileGradient& gradient);
  void reduce(int micro, int unit);
  void rest(int unit);
  void reduce_tied();
  void norm();
  void norm_part();
  void validate();
  void fetch(int unit);
  void update(int unit);
  void store(int unit);
  void publish(int unit);
  void report();

  // `reads_weights`: false leaves them out, where no unit's weights are at hand.
  std::optional<model::StepDropout> dropout_of(int micro) const;
  std::optional<model::UnitInput::Copies> copies_of(int micro);
  model::UnitCall call_of(int micro, int unit, bool reads_weights = true);
  model::Weights weights_of(int unit);
  model::Gradients destinations(int micro, int unit, bool& assign);
  // Whole weights of a flat parameter of `unit`, which begins `behind` elements into the unit's
  // slot.
  void* whole_weights(int unit, int flat_param, core::Elements behind);
  bool has_weights(int unit) const;
  void wait_for_weights(int unit);
  void wait_for_count();
  double weight_of_token(int micro) const;
  float limit_of_own() const;  // 0: none
  bool overflows();
  std::array<double, 2> own_loss();
  StepSums exchange_loss();
  bool own_overflow();
  bool changes(int unit) const;
  void take_from_slot(int flat_param, const void* slot);
  // What the norm needs of the unit's gradient, before that leaves its place.
  void keep_for_norm(int unit);
  bool updates_early(int unit) const {
    return pipeline::updates_early(state_.plan.rules.gradients, units(), unit);
  }
  void discard_forwards();
  void redo_update(const StepAhead::Step& step);
  void scan(int micro, int unit, const model::Gradients& written);
  // Whether a unit keeps nothing for a backward, which never comes.
  bool passes(int unit) const { return forward_only_ || !units().has_backward(unit); }
  const model::Unit& unit_at(int unit) const {
    return *state_.model.units[static_cast<std::size_t>(unit)];
  }
  const pipeline::Placement& units() const { return state_.plan.units(); }
  bool is_tiled_embedding(int unit) const {
    return unit == 0 && units().embedding_tiles().count() > 0;
  }

  RankState& state_;
  core::PhaseClock& clock_;
  core::BlackBox* const box_;
  HiddenExchange exchange_;
  StepAhead ahead_;
  Publications publications_;
  const data::BatchStream* stream_ = nullptr;
  StepRequest request_;
  StepResult result_;
  bool forward_only_ = false;
  bool watching_ = false;
  std::int64_t divisor_ = 0;
  std::optional<BatchCopies> copies_;      // of a device
  core::Answers<double> slot_loss_;        // by micro, this data rank
  GradientScan scan_;                      // of the last program
  std::vector<double> all_losses_;         // gathered
  std::map<MicroUnit, Hidden> inputs_;     // of (micro, unit)
  std::map<MicroUnit, Hidden> gradients_;  // of the output of (micro, unit)
  std::map<MicroUnit, void*> kept_, parked_;
  std::map<int, void*> filled_;       // by micro: what tiles of the embedding fill
  std::map<int, Gathered> gathered_;  // by unit
  comm::Pending counting_;            // divisor_ is being summed
};

}  // namespace fm::engine
