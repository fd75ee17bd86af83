// Interleaved 1F1B (arXiv 2104.04473): v chunks per rank, dealt in a loop. Rank r warms up with
// 2(p-1-r) + (v-1)N entries of the table, N the size of a group. Bubble (p-1)(F+B)/v; keeps
// (2(p-1-r) + (v-1)p + 1)/v M.
#include <algorithm>

#include "pipeline/interleaving.h"
#include "pipeline/schedules.h"

namespace fm::pipeline {

Program interleaved_1f1b(const PipeShape& shape, int pipe_rank) {
  const std::vector<ChunkMicro> forwards = interleaving_table(shape);
  const std::vector<ChunkMicro> backwards = backward_table(shape);
  const int wished =
      2 * (shape.pipe_ranks - 1 - pipe_rank) + (shape.chunks - 1) * group_size(shape);
  const std::size_t warmup = std::min(static_cast<std::size_t>(wished), forwards.size());
  Emitter emit(shape, pipe_rank);
  for (std::size_t at = 0; at < forwards.size() + warmup; ++at) {
    if (at < forwards.size()) emit.forward(forwards[at].micro, forwards[at].chunk);
    if (at < warmup) continue;
    const ChunkMicro& back = backwards[at - warmup];
    emit.backward(back.micro, back.chunk);
  }
  return emit.finish();
}

}  // namespace fm::pipeline
