// GPipe (arXiv 1811.06965): all forwards, then all backwards, first in first out.
// Bubble (p-1)(F+B); keeps m M on every rank.
#include "pipeline/schedules.h"

namespace fm::pipeline {

Program gpipe(const PipeShape& shape, int pipe_rank) {
  Emitter emit(shape, pipe_rank);
  for (int micro = 0; micro < shape.micros; ++micro) emit.forward(micro);
  for (int micro = 0; micro < shape.micros; ++micro) emit.backward(micro);
  return emit.finish();
}

}  // namespace fm::pipeline
