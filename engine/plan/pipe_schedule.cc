#include "engine/plan/pipe_schedule.h"

#include <algorithm>

#include "core/check.h"
#include "pipeline/schedule_study.h"

namespace fm::engine {

std::string schedule_name(const TrainOptions& options) {
  return options.own_schedule ? options.own_schedule->name : std::string(options.schedule->name);
}

pipeline::PipeShape pipe_shape_of(const TrainOptions& options, int micros) {
  pipeline::PipeShape shape{.pipe_ranks = options.pipe_parallel_size, .micros = micros};
  if (const pipeline::OwnSchedule* const own = options.own_schedule.get()) {
    FM_USER_CHECK(own->shape.pipe_ranks == shape.pipe_ranks && own->shape.micros == micros,
                  "a schedule of your own must have a row for each pipe rank and every micro-batch "
                  "of a step; change --pipe_parallel_size, gradient_accumulation_steps or the file "
                  "(",
                  own->name, ": ", own->shape.pipe_ranks, " rows, ", own->shape.micros,
                  " micro-batches; pipe_parallel_size=", shape.pipe_ranks,
                  ", micro-batches=", micros, ")");
    FM_USER_CHECK(options.virtual_stages == 0,
                  "--virtual_stages must be left out beside a "
                  "schedule of your own, whose rows say it (",
                  options.virtual_stages, ")");
    shape = own->shape;
  } else {
    shape.chunks = pipeline::chunks_of(*options.schedule, options.virtual_stages);
    shape.order = options.schedule->order;
  }
  shape.activation_limit = options.activation_limit;
  shape.gradients_in_order = true;  // so that sums do not depend on the schedule
  return shape;
}

void check_activation_limit(const TrainOptions& options, std::span<const double> kept_micros) {
  const bool searched = !options.own_schedule && options.schedule->searches_under_limit;
  if (!options.activation_limit || searched) return;
  const double most = std::ranges::max(kept_micros);
  FM_USER_CHECK(most <= *options.activation_limit + 1e-9, "the schedule ", schedule_name(options),
                " keeps more micro-batches than --activation_limit says; raise the limit, or choose"
                " zb-1p, zb-2p or zb-v-auto, which search under it (micro-batches=",
                most, ", activation_limit=", *options.activation_limit, ")");
}

std::vector<pipeline::Program> scheduled_programs(const TrainOptions& options,
                                                  const pipeline::PipeShape& shape) {
  return options.own_schedule ? options.own_schedule->programs
                              : pipeline::make_programs(*options.schedule, shape);
}

namespace {

// Times of a rank's units, instead of those in `costs`.
void measure(const UnitTimes& times, const pipeline::Placement& units, int rank, bool recompute,
             pipeline::PhaseCosts& costs) {
  costs.forward = costs.input = costs.weight = 0.0;
  costs.comm = times.message;
  for (const int unit : units.units_of(rank)) {
    if (units.is_tile(unit)) continue;
    if (unit == units.head()) {
      costs.input += times.head;
      continue;
    }
    const UnitTimes::Phases& own = unit == 0 ? times.embedding : times.block;
    costs.forward += own.forward;
    if (!units.has_backward(unit)) continue;
    costs.input += own.input + (recompute && unit > 0 ? own.forward : 0.0);
    costs.weight += own.weight;
  }
}

}  // namespace

std::vector<pipeline::PhaseCosts> phase_costs(const TrainOptions& options,
                                              const pipeline::Placement& units,
                                              std::span<const pipeline::UnitFootprint> footprints,
                                              core::Bytes hidden) {
  std::vector<pipeline::PhaseCosts> out;
  for (int rank = 0; rank < units.pipe_ranks(); ++rank) {
    pipeline::PhaseCosts costs{.forward = 0, .input = 0, .weight = 0, .held = 0, .parked = 0};
    for (const int unit : units.units_of(rank)) {
      if (units.is_tile(unit)) continue;
      const pipeline::UnitFootprint& at = footprints[static_cast<std::size_t>(unit)];
      if (unit == units.head()) {  // Loss stands before the backward-input of its chunk
        costs.input += pipeline::row_of(pipeline::Op::kLoss).forwards * at.forward_flops;
        continue;
      }
      const auto kept = static_cast<double>(at.kept.count());
      costs.forward += at.forward_flops;
      if (!units.has_backward(unit)) continue;
      costs.input += at.forward_flops * (options.recompute ? 2.0 : 1.0);
      costs.weight += at.forward_flops;
      costs.held += static_cast<double>(hidden.count()) + (options.recompute ? 0.0 : kept);
      costs.parked += static_cast<double>((hidden + at.parked).count()) + kept;
    }
    if (options.plan_times) {
      const pipeline::PhaseCosts& given = *options.plan_times;
      const bool returns = units.has_backward(units.units_of(rank).back());
      costs = {given.forward,
               returns ? given.input : 0.0,
               returns ? given.weight : 0.0,
               given.comm,
               costs.held,
               costs.parked};
    }
    if (options.unit_times) measure(*options.unit_times, units, rank, options.recompute, costs);
    out.push_back(costs);
  }
  return out;
}

namespace {

using pipeline::Op;

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

pipeline::InstructionTime instruction_times(const TrainOptions& options,
                                            const PlacedUnits& placed) {
  std::vector<double> flops;  // of one forward, by unit
  std::vector<double> of_rank(static_cast<std::size_t>(placed.units.pipe_ranks()), 0.0);
  for (int unit = 0; unit < placed.units.unit_count(); ++unit) {
    flops.push_back(placed.needs.footprints[static_cast<std::size_t>(unit)].forward_flops);
    of_rank[static_cast<std::size_t>(placed.units.owner_of(unit))] += flops.back();
  }
  return [units = placed.units, flops = std::move(flops), of_rank = std::move(of_rank),
          given = options.plan_times,
          measured = options.unit_times](const pipeline::Instruction& at, int rank) {
    const double forwards = pipeline::row_of(at.op).forwards;
    const int unit = units.unit_of(at);
    // The time of tiles is their end's.
    const bool of_tiles = units.is_tile(unit) || (unit == units.head() && at.op != Op::kLoss);
    if (forwards == 0.0 || of_tiles) return 0.0;
    if (measured) return measured_time(*measured, units, at.op, unit);
    const double own = flops[static_cast<std::size_t>(unit)];
    if (!given || own == 0.0) return forwards * own;
    return given_time(at.op, *given) * own / of_rank[static_cast<std::size_t>(rank)];
  };
}

double message_time(const TrainOptions& options) {
  if (options.unit_times) return options.unit_times->message;
  return options.plan_times ? options.plan_times->comm : 0.0;
}

}  // namespace

std::vector<double> kept_micros(const RunSchedule& schedule, const pipeline::Placement& units) {
  const int last = units.head() - 1;  // of the units that keep anything
  const int first = units.has_backward(last) ? units.chunk_of(units.first_backward)
                                             : static_cast<int>(units.chunks().size());
  return pipeline::peak_activations(schedule.scheduled, schedule.pipe, first);
}

RunSchedule schedule_run(const TrainOptions& options, const model::Model& model,
                         const RunShape& run, const PlacedUnits& placed) {
  pipeline::PipeShape pipe = pipe_shape_of(options, run.micros());
  pipe.costs = phase_costs(options, placed.units, placed.deciding,
                           core::bytes_of(placed.needs.hidden, model.element));
  RunSchedule out{.schedule = schedule_name(options),
                  .pipe = pipe,
                  .scheduled = scheduled_programs(options, pipe),
                  .times = instruction_times(options, placed),
                  .message_time = message_time(options)};
  check_activation_limit(options, kept_micros(out, placed.units));
  return out;
}

}  // namespace fm::engine
