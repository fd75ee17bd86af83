// What schedules are written with.
#pragma once

#include <set>

#include "pipeline/placement.h"

namespace fm::pipeline {

// Emits the instructions of a schedule. Loss is the head's forward and backward in one, so it comes
// directly before the micro-batch's first Backward.
class Emitter {
 public:
  Emitter(const PipeShape& shape, int pipe_rank) : shape_(shape), pipe_rank_(pipe_rank) {}

  // Emits Load first where the chunk needs tokens or labels that this rank has not loaded.
  void forward(int micro, int chunk = 0);
  void loss(int micro, int chunk = 0);  // nothing where the chunk has no head
  void backward(int micro, int chunk = 0);
  void backward_input(int micro, int chunk = 0);
  void backward_weight(int micro, int chunk = 0);
  Program finish();

 private:
  bool is_last(int chunk) const {
    return shape_.chunk_of(pipe_rank_, chunk) == shape_.chunk_count() - 1;
  }

  const PipeShape& shape_;
  int pipe_rank_;
  std::set<int> loaded_;
  Program program_;
};

}  // namespace fm::pipeline
