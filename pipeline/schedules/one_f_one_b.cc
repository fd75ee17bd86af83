// One forward, one backward (arXiv 1806.03377, 2006.09503 "1F1B flush"): rank r warms up with
// min(p-1-r, m) forwards. Bubble (p-1)(F+B); keeps min(p-r, m) M.
#include <algorithm>

#include "pipeline/schedules.h"

namespace fm::pipeline {

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

}  // namespace fm::pipeline
