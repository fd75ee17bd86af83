// Tiles of the embedding and the head (pipeline/insert_tiles.h).
#include "engine/step/step_runtime.h"

namespace fm::engine {

using core::Phase;
using core::TraceRange;

void StepRuntime::begin_head_tiles(int micro) {
  const int head = units().head();
  kept_[{micro, head}] = state_.between.lend();
  state_.model.head->begin_tiles(call_of(micro, head), inputs_.at({micro, head}).data);
}

// A call of the unit that has the tiles, with the tile's weights.
model::UnitCall StepRuntime::call_of_tile(int micro, int tile, bool reads_weights) {
  model::UnitCall call = call_of(micro, units().end_of(tile), false);
  if (reads_weights) call.weights = weights_of(tile);
  return call;
}

void StepRuntime::forward_tile(int micro, int unit) {
  wait_for_weights(unit);
  if (!units().is_embedding(unit)) {
    return pass_head_tile(micro, unit, model::TilePass::kMaxima, {});
  }
  const TraceRange range(clock_, Phase::kForward);
  void*& output = filled_[micro];
  if (output == nullptr) output = state_.hidden.lend();
  const model::UnitCall call = call_of_tile(micro, unit, true);
  unit_at(0).forward_tile({call, state_.model.tile(unit)}, output);
}

void StepRuntime::pass_head_tile(int micro, int unit, model::TilePass pass,
                                 const model::TileGradient& gradient) {
  const TraceRange range(clock_, Phase::kLoss);
  const double scale =
      pass == model::TilePass::kGradients ? weight_of_token(micro) * request_.loss_scale : 0.0;
  const model::UnitCall call = call_of_tile(micro, unit, true);
  state_.model.head->pass_tile({call, state_.model.tile(unit), gradient}, pass, scale);
}

void StepRuntime::backward_tile(int micro, int unit) {
  const bool embedding = units().is_embedding(unit);
  if (!embedding) wait_for_weights(unit);
  if (!embedding) wait_for_count();
  bool assign = true;
  const model::Gradients written = destinations(micro, unit, assign);
  const model::TileGradient gradient{written.own,
                                     assign ? model::Write::kAssign : model::Write::kAdd};
  if (embedding) {
    const TraceRange range(clock_, Phase::kBackward);
    const model::UnitCall call = call_of_tile(micro, unit, false);
    unit_at(0).backward_tile({call, state_.model.tile(unit), gradient});
  } else {
    pass_head_tile(micro, unit, model::TilePass::kGradients, gradient);
  }
  scan(micro, unit, written);
}

}  // namespace fm::engine
