#include "engine/plan_simulation.h"

#include "engine/pipe_schedule.h"

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

}  // namespace

pipeline::InstructionTime instruction_times(const TrainOptions& options, const RunPlan& plan) {
  return
      [&options, &plan, flops = flops_of_ranks(plan)](const pipeline::Instruction& at, int rank) {
        const double forwards = pipeline::row_of(at.op).forwards;
        if (forwards == 0.0) return 0.0;
        const double own = flops_of(plan, plan.units().unit_of(at));
        if (!options.plan_times || own == 0.0) return forwards * own;
        return given_time(at.op, *options.plan_times) * own / flops[static_cast<std::size_t>(rank)];
      };
}

pipeline::Simulation simulate_plan(const TrainOptions& options, const RunPlan& plan) {
  const double comm = options.plan_times ? options.plan_times->comm : 0.0;
  return pipeline::simulate(plan.train, plan.units(), instruction_times(options, plan), comm);
}

}  // namespace fm::engine
