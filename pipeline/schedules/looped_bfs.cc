// Looped breadth-first (arXiv 2211.05953): every chunk runs all micro-batches before the next one,
// so its weights are gathered twice per step whatever m is. Bubble (p-1)(F+B)/v; keeps m M.
// Backward takes the newest micro-batch first, as PyTorch does; where gradients must be added in
// the order of micro-batches, the oldest one.
#include "pipeline/schedules.h"

namespace fm::pipeline {

Program looped_bfs(const PipeShape& shape, int pipe_rank) {
  Emitter emit(shape, pipe_rank);
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    for (int micro = 0; micro < shape.micros; ++micro) emit.forward(micro, chunk);
  }
  for (int chunk = shape.chunks - 1; chunk >= 0; --chunk) {
    for (int at = 0; at < shape.micros; ++at) {
      emit.backward(shape.gradients_in_order ? at : shape.micros - 1 - at, chunk);
    }
  }
  return emit.finish();
}

}  // namespace fm::pipeline
