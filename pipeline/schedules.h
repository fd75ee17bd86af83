// Schedules: the order of micro-batches on every pipe rank, as Load, Forward, Loss and Backward (or
// its halves) over the rank's chunks ("unit 0" is its first chunk until expand_units).
//
// Notation: p pipe ranks, r a pipe rank, m micro-batches, v chunks per rank; F forward, B backward,
// I and W its halves (the papers call I "B"); M the memory that one micro-batch keeps on one rank.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/placement.h"

namespace fm::pipeline {

// Most schedules are defined per rank; some search for all ranks together.
using Schedule = Program (*)(const PipeShape& shape, int pipe_rank);
using JointSchedule = std::vector<Program> (*)(const PipeShape& shape);

// One file each in pipeline/schedules/, where the comments name the sources.
Program gpipe(const PipeShape& shape, int pipe_rank);
Program one_f_one_b(const PipeShape& shape, int pipe_rank);
Program interleaved_1f1b(const PipeShape& shape, int pipe_rank);
Program looped_bfs(const PipeShape& shape, int pipe_rank);
Program zb_h1(const PipeShape& shape, int pipe_rank);
Program zb_h2(const PipeShape& shape, int pipe_rank);
Program interleaved_zb(const PipeShape& shape, int pipe_rank);
Program zb_v(const PipeShape& shape, int pipe_rank);
Program dualpipe_v(const PipeShape& shape, int pipe_rank);
std::vector<Program> zb_1p(const PipeShape& shape);
std::vector<Program> zb_2p(const PipeShape& shape);
std::vector<Program> zb_v_auto(const PipeShape& shape);
std::vector<Program> v_half(const PipeShape& shape);
std::vector<Program> v_min(const PipeShape& shape);
std::vector<Program> one_f_one_b_v(const PipeShape& shape);

// Forward only, for evaluation: L F X for each micro-batch, through every chunk of the rank.
Program forward_only(const PipeShape& shape, int pipe_rank);

// A schedule that a run can choose. A new one is a file and a row of the table in schedules.cc.
struct ScheduleRow {
  // A condition on the shape besides the number of chunks.
  struct Constraint {
    bool (*holds)(const PipeShape& shape) = nullptr;  // null: nothing
    std::string_view words;                           // "needs ..."
  };
  std::string_view name;  // of --schedule
  Schedule make = nullptr;
  JointSchedule make_all = nullptr;  // where make is null
  int chunks = 1;                    // per pipe rank, where the user does not choose
  ChunkOrder order = ChunkOrder::kLoop;
  int most_chunks = 0;  // 0: `chunks` and no other number
  Constraint constraint = {};
  bool searches_under_limit = false;  // obeys PipeShape::activation_limit; the others ignore it
  // Its name in other projects where that differs, in small letters without hyphens.
  std::string_view also = {};
};
std::span<const ScheduleRow> all_schedules();
// Finds a schedule by its name here or in other projects, with or without "Schedule"; case and
// hyphens do not matter. Null where there is none.
const ScheduleRow* find_schedule(std::string_view words);
const ScheduleRow& default_schedule();  // 1f1b

// `wanted`: chunks per pipe rank (--virtual_stages); 0: the schedule's own number. Throws UserError
// that names the schedule where it does not support that number.
int chunks_of(const ScheduleRow& row, int wanted);
// By pipe rank. Throws UserError that names a constraint that does not hold.
std::vector<Program> make_programs(const ScheduleRow& row, const PipeShape& shape);

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
