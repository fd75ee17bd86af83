#include "pipeline/schedules/linear.h"

#include <algorithm>

#include "pipeline/emitter.h"

namespace fm::pipeline {
namespace {

// Rank r warms up with `depth` forwards per rank after it; weight halves are delayed by `depth` x r
// inputs.
Program delayed_weights(const PipeShape& shape, int pipe_rank, int depth) {
  Emitter emit(shape, pipe_rank);
  const int warmup = std::min(depth * (shape.pipe_ranks - 1 - pipe_rank), shape.micros);
  const int delay = std::min(depth * pipe_rank, shape.micros);
  for (int micro = 0; micro < warmup; ++micro) emit.forward(micro);
  for (int micro = 0; micro < shape.micros; ++micro) {
    if (warmup + micro < shape.micros) emit.forward(warmup + micro);
    emit.backward_input(micro);
    if (micro >= delay) emit.backward_weight(micro - delay);
  }
  for (int micro = shape.micros - delay; micro < shape.micros; ++micro) emit.backward_weight(micro);
  return emit.finish();
}

}  // namespace

Program gpipe(const PipeShape& shape, int pipe_rank) {
  Emitter emit(shape, pipe_rank);
  for (int micro = 0; micro < shape.micros; ++micro) emit.forward(micro);
  for (int micro = 0; micro < shape.micros; ++micro) emit.backward(micro);
  return emit.finish();
}

Program one_f_one_b(const PipeShape& shape, int pipe_rank) {
  Emitter emit(shape, pipe_rank);
  const int warmup = std::min(shape.pipe_ranks - 1 - pipe_rank, shape.micros);
  for (int micro = 0; micro < warmup; ++micro) emit.forward(micro);
  for (int micro = 0; micro < shape.micros - warmup; ++micro) {
    emit.forward(warmup + micro);
    emit.backward(micro);
  }
  for (int micro = shape.micros - warmup; micro < shape.micros; ++micro) emit.backward(micro);
  return emit.finish();
}

Program zb_h1(const PipeShape& shape, int pipe_rank) {
  return delayed_weights(shape, pipe_rank, 1);
}

Program zb_h2(const PipeShape& shape, int pipe_rank) {
  return delayed_weights(shape, pipe_rank, 2);
}

}  // namespace fm::pipeline
