// Programs of all pipe ranks through every pass, as the engine makes them.
#pragma once

#include <vector>

#include "core/shard_plan.h"
#include "pipeline/passes.h"
#include "pipeline/schedules.h"
#include "pipeline/validate.h"
#include "zero/insert_zero.h"

namespace fm::pipeline {

struct BuildShape {
  Schedule schedule = one_f_one_b;
  int pipe_ranks = 1;
  int micros = 1;
  int blocks = 1;
  bool tied = false;
  bool recompute = false;
  int zero_stage = 0;
  core::SumOrder order = core::SumOrder::kFast;
  bool one_tied_gradient = false;
};

inline UnitRow row_of(const BuildShape& shape) {
  UnitRow row = split_units(shape.blocks, shape.pipe_ranks, shape.tied);
  row.one_tied_gradient = shape.one_tied_gradient;
  return row;
}

// Schedule, units, sends and receives.
inline std::vector<Program> lowered(const BuildShape& shape) {
  const UnitRow row = row_of(shape);
  std::vector<Program> programs;
  for (int rank = 0; rank < shape.pipe_ranks; ++rank) {
    const ScheduleShape scheduled{shape.pipe_ranks, shape.micros, 1};
    programs.push_back(expand_units(shape.schedule(scheduled, rank), row, rank));
  }
  return insert_p2p(programs, row);
}

// `programs` with recomputation when asked for, and ZeRO.
inline std::vector<Program> finished(std::vector<Program> programs, const BuildShape& shape) {
  const UnitRow row = row_of(shape);
  const core::ShardPlan plan = core::plan_of(shape.zero_stage, shape.order);
  for (int rank = 0; rank < shape.pipe_ranks; ++rank) {
    Program& program = programs[static_cast<std::size_t>(rank)];
    if (shape.recompute) program = insert_recompute(program, row);
    program = zero::insert_zero(program, plan, row, rank);
  }
  return programs;
}

inline std::vector<Program> built(const BuildShape& shape) {
  return finished(lowered(shape), shape);
}

inline ProgramRules rules_of(const BuildShape& shape) {
  return {.row = row_of(shape),
          .micros = shape.micros,
          .plan = core::plan_of(shape.zero_stage, shape.order),
          .recompute = shape.recompute,
          .forward_only = shape.schedule == forward_only};
}

}  // namespace fm::pipeline
