// Schedules: the order of micro-batches on one pipe rank, as Load, Forward, Loss and Backward over
// the rank's chunks ("unit 0" is its first chunk until expand_units).
#pragma once

#include <set>
#include <span>
#include <string_view>

#include "pipeline/placement.h"

namespace fm::pipeline {

using Schedule = Program (*)(const PipeShape& shape, int pipe_rank);

// All forwards, then all backwards, first in first out (arXiv 1811.06965). Keeps `micros` live.
Program gpipe(const PipeShape& shape, int pipe_rank);

// One forward, one backward (arXiv 1806.03377, 2006.09503 "1F1B flush"): rank r warms up with
// min(p-1-r, m) forwards and keeps at most min(p-r, m) micro-batches live.
Program one_f_one_b(const PipeShape& shape, int pipe_rank);

// Forward only, for evaluation: L F X for each micro-batch, through every chunk of the rank.
Program forward_only(const PipeShape& shape, int pipe_rank);

// A schedule as a run chooses it. A new one is a function and a row of the table in schedules.cc.
struct ScheduleRow {
  std::string_view name;  // of --schedule
  Schedule make = nullptr;
  int chunks = 1;  // per pipe rank
  ChunkOrder order = ChunkOrder::kLoop;
};
std::span<const ScheduleRow> all_schedules();
const ScheduleRow& default_schedule();  // 1f1b

// Emits what schedules are made of. Loss is the head's forward and backward in one, so it stands
// directly before the micro-batch's first Backward.
class Emitter {
 public:
  Emitter(const PipeShape& shape, int pipe_rank) : shape_(shape), pipe_rank_(pipe_rank) {}

  // With Load where the chunk needs tokens or labels that this rank has not loaded.
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

  PipeShape shape_;
  int pipe_rank_;
  std::set<int> loaded_;
  Program program_;
};

}  // namespace fm::pipeline
