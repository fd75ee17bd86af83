// The schedule that a run's options choose, and what it goes by: the third stage of a plan
// (engine/plan/run_plan.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/types.h"
#include "engine/options.h"
#include "engine/plan/placed_units.h"
#include "engine/plan/run_shape.h"
#include "pipeline/account.h"
#include "pipeline/passes.h"
#include "pipeline/placement.h"

namespace fm::engine {

struct RunSchedule {
  std::string schedule;                      // its name
  pipeline::PipeShape pipe;                  // what it was made for
  std::vector<pipeline::Program> scheduled;  // its order of chunks, by pipe rank
  // In floating-point operations of the model (moving bytes costs nothing), in microseconds of
  // options.unit_times, or in the unit of options.plan_times, whose times of a rank its units share
  // by their operations.
  pipeline::InstructionTime times;
  double message_time = 0.0;  // between pipe ranks
};
// Throws UserError as pipeline::make_programs does, and for a limit of activations that is passed.
RunSchedule schedule_run(const TrainOptions& options, const model::Model& model,
                         const RunShape& run, const PlacedUnits& placed);

// By pipe rank: pipeline::peak_activations of the chunks that have a backward.
std::vector<double> kept_micros(const RunSchedule& schedule, const pipeline::Placement& units);

// Of messages: "zb-v", or the file of the user's own.
std::string schedule_name(const TrainOptions& options);

// Without costs, which need the placement. Throws UserError for chunks that the schedule does not
// take, and for an own schedule of another number of pipe ranks or micro-batches.
pipeline::PipeShape pipe_shape_of(const TrainOptions& options, int micros);

// By pipe rank. Throws UserError as pipeline::make_programs does.
std::vector<pipeline::Program> scheduled_programs(const TrainOptions& options,
                                                  const pipeline::PipeShape& shape);

// A limit of micro-batches that no search went by must hold by itself. `kept_micros`: the most that
// each pipe rank keeps. Throws UserError.
void check_activation_limit(const TrainOptions& options, std::span<const double> kept_micros);

// What one micro-batch costs on each pipe rank: times in floating-point operations, or as
// options.plan_times or unit_times say; memory in bytes. `hidden`: bytes of one hidden state.
std::vector<pipeline::PhaseCosts> phase_costs(const TrainOptions& options,
                                              const pipeline::Placement& units,
                                              std::span<const pipeline::UnitFootprint> footprints,
                                              core::Bytes hidden);

}  // namespace fm::engine
