// A plan in time: what every pipe rank does when, and what it keeps meanwhile.
#pragma once

#include "engine/options.h"
#include "engine/plan/run_plan.h"
#include "pipeline/passes.h"
#include "pipeline/simulate.h"

namespace fm::engine {

// Of an instruction on a pipe rank; options and plan outlive it.
pipeline::InstructionTime instruction_times(const TrainOptions& options, const RunPlan& plan);

// In floating-point operations of the model (moving bytes costs nothing), in microseconds of
// options.unit_times, or in the unit of options.plan_times, whose times of a rank its units share
// by their operations.
pipeline::Simulation simulate_plan(const TrainOptions& options, const RunPlan& plan);
// Of a step between others that end before their norm is known, too; 0 where none does.
double time_of_step_ahead(const TrainOptions& options, const RunPlan& plan);

}  // namespace fm::engine
