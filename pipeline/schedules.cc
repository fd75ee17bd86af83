#include "pipeline/schedules.h"

#include <algorithm>
#include <array>

#include "core/check.h"

namespace fm::pipeline {
namespace {

constexpr std::array kSchedules = {ScheduleRow{.name = "1f1b", .make = one_f_one_b},
                                   ScheduleRow{.name = "gpipe", .make = gpipe}};

void need_one_chunk(const PipeShape& shape) {
  FM_CHECK(shape.chunks == 1, "this schedule has one chunk per pipe rank");
}

}  // namespace

std::span<const ScheduleRow> all_schedules() { return kSchedules; }
const ScheduleRow& default_schedule() { return kSchedules.front(); }

void Emitter::forward(int micro, int chunk) {
  const bool needs = shape_.chunk_of(pipe_rank_, chunk) == 0 || is_last(chunk);
  if (needs && loaded_.insert(micro).second) program_.push_back({Op::kLoad, micro, -1});
  program_.push_back({Op::kForward, micro, chunk});
}

void Emitter::loss(int micro, int chunk) {
  if (is_last(chunk)) program_.push_back({Op::kLoss, micro, -1});
}

void Emitter::backward(int micro, int chunk) {
  loss(micro, chunk);
  program_.push_back({Op::kBackward, micro, chunk});
}

void Emitter::backward_input(int micro, int chunk) {
  loss(micro, chunk);
  program_.push_back({Op::kBackwardInput, micro, chunk});
}

void Emitter::backward_weight(int micro, int chunk) {
  program_.push_back({Op::kBackwardWeight, micro, chunk});
}

Program Emitter::finish() {
  program_.push_back({Op::kReport, -1, -1});
  return std::move(program_);
}

Program gpipe(const PipeShape& shape, int pipe_rank) {
  need_one_chunk(shape);
  Emitter emit(shape, pipe_rank);
  for (int micro = 0; micro < shape.micros; ++micro) emit.forward(micro);
  for (int micro = 0; micro < shape.micros; ++micro) emit.backward(micro);
  return emit.finish();
}

Program one_f_one_b(const PipeShape& shape, int pipe_rank) {
  need_one_chunk(shape);
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

Program forward_only(const PipeShape& shape, int pipe_rank) {
  Emitter emit(shape, pipe_rank);
  for (int micro = 0; micro < shape.micros; ++micro) {
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      emit.forward(micro, chunk);
      emit.loss(micro, chunk);
    }
  }
  return emit.finish();
}

}  // namespace fm::pipeline
