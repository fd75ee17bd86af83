// A plan in time: what every pipe rank does when, and what it keeps meanwhile.
#pragma once

#include "engine/plan/run_plan.h"
#include "pipeline/simulate.h"

namespace fm::engine {

// By the plan's times.
pipeline::Simulation simulate_plan(const RunPlan& plan);
// Of a step between others that end before their norm is known, too; 0 where none does.
double time_of_step_ahead(const RunPlan& plan);

}  // namespace fm::engine
