#include "pipeline/schedules/looped.h"

#include <algorithm>

#include "pipeline/emitter.h"
#include "pipeline/placement.h"

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
