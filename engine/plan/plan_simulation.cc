#include "engine/plan/plan_simulation.h"

#include "engine/plan/pipe_schedule.h"

namespace fm::engine {
namespace {

using pipeline::Op;

double flops_of(const RunPlan& plan, int unit) {
  return plan.footprints[static_cast<std::size_t>(unit)].forward_flops;
}

// By pipe rank: operations of one forward through all of its units.
std::vector<double> flops_of_ranks(const RunPlan& plan) {
  std::vector<double> flops(static_cast<std::size_t>(plan.mesh.pipe), 0.0);
  for (int unit = 0; unit < plan.units().unit_count(); ++unit) {
    flops[static_cast<std::size_t>(plan.units().owner_of(unit))] += flops_of(plan, unit);
  }
  return flops;
}

double given_time(Op op, const pipeline::PhaseCosts& times) {
  struct Row {
    Op op;
    double time;
  };
  const Row rows[] = {
      {Op::kForward, times.forward},     {Op::kRecompute, times.forward},
      {Op::kLoss, times.whole()},        {Op::kBackward, times.input + times.weight},
      {Op::kBackwardInput, times.input}, {Op::kBackwardWeight, times.weight}};
  for (const Row& row : rows) {
    if (row.op == op) return row.time;
  }
  return 0.0;
}

double measured_time(const UnitTimes& times, const pipeline::Placement& units, Op op, int unit) {
  if (unit == units.head()) return times.head;
  const UnitTimes::Phases& own = unit == 0 ? times.embedding : times.block;
  return given_time(op, {own.forward, own.input, own.weight});
}

}  // namespace

pipeline::InstructionTime instruction_times(const TrainOptions& options, const RunPlan& plan) {
  const auto time = [&options, &plan, flops = flops_of_ranks(plan)](const pipeline::Instruction& at,
                                                                    int rank) {
    const double forwards = pipeline::row_of(at.op).forwards;
    if (forwards == 0.0) return 0.0;
    const int unit = plan.units().unit_of(at);
    if (options.unit_times) return measured_time(*options.unit_times, plan.units(), at.op, unit);
    const double own = flops_of(plan, unit);
    if (!options.plan_times || own == 0.0) return forwards * own;
    return given_time(at.op, *options.plan_times) * own / flops[static_cast<std::size_t>(rank)];
  };
  return time;
}

namespace {

pipeline::Simulation simulated(const TrainOptions& options, const RunPlan& plan,
                               const std::vector<pipeline::Program>& programs, int steps) {
  double comm = options.plan_times ? options.plan_times->comm : 0.0;
  if (options.unit_times) comm = options.unit_times->message;
  return pipeline::simulate(programs, plan.units(), instruction_times(options, plan), comm, steps);
}

}  // namespace

pipeline::Simulation simulate_plan(const TrainOptions& options, const RunPlan& plan) {
  return simulated(options, plan, plan.train, 1);
}

double time_of_step_ahead(const TrainOptions& options, const RunPlan& plan) {
  if (plan.ahead.empty()) return 0.0;
  constexpr int kSteps = 5;
  const auto makespan = [&](int steps) {
    return simulated(options, plan, plan.ahead, steps).makespan;
  };
  return (makespan(kSteps) - makespan(1)) / (kSteps - 1);
}

}  // namespace fm::engine
