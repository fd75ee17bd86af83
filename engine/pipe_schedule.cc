#include "engine/pipe_schedule.h"

namespace fm::engine {

pipeline::PipeShape pipe_shape_of(const TrainOptions& options, int micros) {
  return {.pipe_ranks = options.pipe_parallel_size,
          .micros = micros,
          .chunks = pipeline::chunks_of(*options.schedule, options.virtual_stages),
          .order = options.schedule->order,
          .activation_limit = options.activation_limit,
          .gradients_in_order = true};  // so that sums do not depend on the schedule
}

std::vector<pipeline::PhaseCosts> phase_costs(const TrainOptions& options,
                                              const pipeline::Placement& units,
                                              std::span<const pipeline::UnitFootprint> footprints,
                                              core::Bytes hidden) {
  std::vector<pipeline::PhaseCosts> out;
  for (int rank = 0; rank < units.pipe_ranks(); ++rank) {
    pipeline::PhaseCosts costs{.forward = 0, .input = 0, .weight = 0, .held = 0, .parked = 0};
    for (const int unit : units.units_of(rank)) {
      const pipeline::UnitFootprint& at = footprints[static_cast<std::size_t>(unit)];
      if (unit == units.head()) {  // Loss stands before the backward-input of its chunk
        costs.input += pipeline::row_of(pipeline::Op::kLoss).forwards * at.forward_flops;
        continue;
      }
      const auto kept = static_cast<double>(at.kept.count());
      costs.forward += at.forward_flops;
      costs.input += at.forward_flops * (options.recompute ? 2.0 : 1.0);
      costs.weight += at.forward_flops;
      costs.held += static_cast<double>(hidden.count()) + (options.recompute ? 0.0 : kept);
      costs.parked += static_cast<double>((hidden + at.parked).count()) + kept;
    }
    if (options.plan_times) {
      const pipeline::PhaseCosts& given = *options.plan_times;
      costs = {given.forward, given.input, given.weight, given.comm, costs.held, costs.parked};
    }
    out.push_back(costs);
  }
  return out;
}

}  // namespace fm::engine
