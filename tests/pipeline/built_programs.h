// Programs of all pipe ranks through every pass, as the engine makes them.
#pragma once

#include <vector>

#include "core/shard_plan.h"
#include "offload/insert_offload.h"
#include "pipeline/passes.h"
#include "pipeline/post_validation.h"
#include "pipeline/schedules/linear.h"
#include "pipeline/schedules/schedules.h"
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
  int chunks = 1;
  ChunkOrder chunk_order = ChunkOrder::kLoop;
  bool validates = false;  // the step before
  bool in_parts = false;   // the norm, so that the step behind validates
  int first_backward = 0;
  int awake = 0;  // flat parameters of those whose state sleeps
  GradientRing gradients = {};
  UnitOrder units = UnitOrder::kMicroMajor;
  int end_blocks = 1;  // of the ring of those that sleep
};

// One chunk per pipe rank.
inline Placement split(int blocks, int pipe_ranks, bool tied = false) {
  return split_evenly(blocks, {.pipe_ranks = pipe_ranks}, tied);
}

inline PipeShape pipe_shape(const BuildShape& shape) {
  return {.pipe_ranks = shape.pipe_ranks,
          .micros = shape.micros,
          .chunks = shape.chunks,
          .order = shape.chunk_order};
}

inline Placement placement_of(const BuildShape& shape) {
  Placement units = split_evenly(shape.blocks, pipe_shape(shape), shape.tied);
  units.one_tied_gradient = shape.one_tied_gradient;
  units.first_backward = shape.first_backward;
  return shape.schedule == forward_only ? units.evaluating() : units;
}

// Schedule, units, sends and receives.
inline std::vector<Program> lowered(const BuildShape& shape) {
  const Placement units = placement_of(shape);
  std::vector<Program> programs;
  for (int rank = 0; rank < shape.pipe_ranks; ++rank) {
    programs.push_back(
        expand_units(shape.schedule(pipe_shape(shape), rank), units, rank, shape.units));
  }
  if (shape.validates) programs = insert_validation(programs, units);
  return insert_p2p(programs, units);
}

inline ProgramRules rules_of(const BuildShape& shape) {
  return {.units = placement_of(shape),
          .micros = shape.micros,
          .plan = core::plan_of(shape.zero_stage, shape.order),
          .recompute = shape.recompute,
          .validates = shape.validates,
          .awake = shape.awake,
          .end_blocks = shape.end_blocks,
          .gradients = shape.gradients};
}

// `programs` with recomputation when asked for, ZeRO, and offload.
inline std::vector<Program> finished(std::vector<Program> programs, const BuildShape& shape) {
  const Placement units = placement_of(shape);
  const core::ShardPlan plan = core::plan_of(shape.zero_stage, shape.order);
  for (int rank = 0; rank < shape.pipe_ranks; ++rank) {
    Program& program = programs[static_cast<std::size_t>(rank)];
    if (shape.recompute) program = insert_recompute(program, units);
    program = zero::insert_zero(program, plan, units, rank);
    program = insert_rest(program, shape.gradients, units);
    program = offload::insert_offload(program, rules_of(shape));
  }
  if (shape.in_parts) return with_norm_in_parts(programs);
  return programs;
}

inline std::vector<Program> built(const BuildShape& shape) {
  return finished(lowered(shape), shape);
}

}  // namespace fm::pipeline
