// Schedules: the order of micro-batches on every pipe rank, as Load, Forward, Loss and Backward (or
// its halves) over the rank's chunks ("unit 0" is its first chunk until expand_units).
//
// Notation: p pipe ranks, r a pipe rank, m micro-batches, v chunks per rank; F forward, B backward,
// I and W its halves (the papers call I "B"); M the memory that one micro-batch keeps on one rank.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/placement.h"

namespace fm::pipeline {

// Most schedules are defined per rank; some search for all ranks together.
using Schedule = Program (*)(const PipeShape& shape, int pipe_rank);
using JointSchedule = std::vector<Program> (*)(const PipeShape& shape);

// Forward only, for evaluation: L F X for each micro-batch, through every chunk of the rank.
Program forward_only(const PipeShape& shape, int pipe_rank);

// A schedule as a run chooses it. A new one is a function in pipeline/schedules/, where the
// comments name the sources, and a row of the table in schedules.cc.
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
  UnitOrder units = UnitOrder::kMicroMajor;  // inside a chunk
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

}  // namespace fm::pipeline
