#include "pipeline/schedules.h"

#include <algorithm>

#include "core/check.h"

namespace fm::pipeline {
namespace {

// Emits the two halves of a micro-batch on one pipe rank. Loss is the head's forward and backward
// in one, so it stands directly before the micro-batch's first Backward.
class Emitter {
 public:
  Emitter(const ScheduleShape& shape, int pipe_rank)
      : first_(pipe_rank == 0), last_(pipe_rank == shape.pipe_ranks - 1) {
    FM_CHECK(shape.units == 1, "this schedule has one chunk per pipe rank");
  }

  void forward(int micro) {
    if (first_ || last_) program_.push_back({Op::kLoad, micro, -1});
    program_.push_back({Op::kForward, micro, 0});
  }
  void loss(int micro) {
    if (last_) program_.push_back({Op::kLoss, micro, -1});
  }
  void backward(int micro) {
    loss(micro);
    program_.push_back({Op::kBackward, micro, 0});
  }
  Program finish() {
    program_.push_back({Op::kReport, -1, -1});
    return std::move(program_);
  }

 private:
  bool first_;
  bool last_;
  Program program_;
};

}  // namespace

Program gpipe(const ScheduleShape& shape, int pipe_rank) {
  Emitter emit(shape, pipe_rank);
  for (int micro = 0; micro < shape.micros; ++micro) emit.forward(micro);
  for (int micro = 0; micro < shape.micros; ++micro) emit.backward(micro);
  return emit.finish();
}

Program one_f_one_b(const ScheduleShape& shape, int pipe_rank) {
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

Program forward_only(const ScheduleShape& shape, int pipe_rank) {
  Emitter emit(shape, pipe_rank);
  for (int micro = 0; micro < shape.micros; ++micro) {
    emit.forward(micro);
    emit.loss(micro);
  }
  return emit.finish();
}

}  // namespace fm::pipeline
