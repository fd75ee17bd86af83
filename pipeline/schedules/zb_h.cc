// ZB-H1 and ZB-H2 (Zero Bubble Pipeline Parallelism, ICLR 2024, arXiv 2401.10241): weight halves
// run later and fill the idle times of 1F1B. ZB-H1: bubble (p-1)(F+I-W), keeps about p M. ZB-H2
// warms up twice as long: (p-1)(F+I-2W) from first to last instruction of a rank, (2p-1) M.
#include <algorithm>

#include "pipeline/schedules.h"

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

Program zb_h1(const PipeShape& shape, int pipe_rank) {
  return delayed_weights(shape, pipe_rank, 1);
}

Program zb_h2(const PipeShape& shape, int pipe_rank) {
  return delayed_weights(shape, pipe_rank, 2);
}

}  // namespace fm::pipeline
