// Interleaved 1F1B with split backward (ScheduleInterleavedZeroBubble of PyTorch): rank r warms up
// with (p-1-r) + (v-1)N entries of the table; weight halves are delayed by r inputs.
// Bubble (p-1)(F+I-W)/v; keeps p M.
#include <algorithm>

#include "pipeline/interleaving.h"
#include "pipeline/schedules.h"

namespace fm::pipeline {

Program interleaved_zb(const PipeShape& shape, int pipe_rank) {
  const std::vector<ChunkMicro> forwards = interleaving_table(shape);
  const std::vector<ChunkMicro> backwards = backward_table(shape);
  const std::size_t all = forwards.size();
  const int wished = shape.pipe_ranks - 1 - pipe_rank + (shape.chunks - 1) * group_size(shape);
  const std::size_t warmup = std::min(static_cast<std::size_t>(wished), all);
  const std::size_t delay = std::min(static_cast<std::size_t>(pipe_rank), all);
  Emitter emit(shape, pipe_rank);
  for (std::size_t at = 0; at < warmup; ++at) emit.forward(forwards[at].micro, forwards[at].chunk);
  for (std::size_t at = 0; at < all + delay; ++at) {
    if (warmup + at < all) emit.forward(forwards[warmup + at].micro, forwards[warmup + at].chunk);
    if (at < all) emit.backward_input(backwards[at].micro, backwards[at].chunk);
    if (at < delay) continue;
    emit.backward_weight(backwards[at - delay].micro, backwards[at - delay].chunk);
  }
  return emit.finish();
}

}  // namespace fm::pipeline
