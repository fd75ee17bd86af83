#include "engine/plan/plan_simulation.h"

namespace fm::engine {
namespace {

pipeline::Simulation simulated(const RunPlan& plan, const std::vector<pipeline::Program>& programs,
                               int steps) {
  return pipeline::simulate(programs, plan.units(), plan.times, plan.message_time, steps);
}

}  // namespace

pipeline::Simulation simulate_plan(const RunPlan& plan) { return simulated(plan, plan.train, 1); }

double time_of_step_ahead(const RunPlan& plan) {
  if (plan.ahead.empty()) return 0.0;
  constexpr int kSteps = 5;
  const auto makespan = [&](int steps) { return simulated(plan, plan.ahead, steps).makespan; };
  return (makespan(kSteps) - makespan(1)) / (kSteps - 1);
}

}  // namespace fm::engine
