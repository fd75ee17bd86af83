#include "engine/plan/run_programs.h"

#include <algorithm>

#include "core/check.h"
#include "engine/plan/gradients_at_rest.h"
#include "engine/plan/host_tier.h"
#include "engine/plan/tiers_of_run.h"
#include "offload/insert_offload.h"
#include "pipeline/gradient_ring.h"
#include "pipeline/insert_tiles.h"
#include "pipeline/passes.h"
#include "pipeline/post_validation.h"
#include "pipeline/schedules/schedules.h"
#include "zero/insert_prefetch.h"
#include "zero/insert_zero.h"

namespace fm::engine {
namespace {

using pipeline::Program;

std::vector<Program> expanded(const std::vector<Program>& scheduled,
                              const pipeline::Placement& units, pipeline::UnitOrder order) {
  std::vector<Program> programs;
  for (std::size_t rank = 0; rank < scheduled.size(); ++rank) {
    programs.push_back(pipeline::insert_tiles(
        pipeline::expand_units(scheduled[rank], units, static_cast<int>(rank), order), units));
  }
  return programs;
}

std::vector<Program> evaluation_of(const pipeline::PipeShape& shape) {
  std::vector<Program> programs;
  for (int rank = 0; rank < shape.pipe_ranks; ++rank) {
    programs.push_back(pipeline::forward_only(shape, rank));
  }
  return programs;
}

// The order lets both ends of the tied matrix write one gradient: its slot is empty again before
// the next loss.
bool writes_tied_in_turn(const Program& program) {
  bool waits = false;
  for (const pipeline::Instruction& at : program) {
    if (!pipeline::row_of(at.op).writes_gradient) continue;
    if (at.op == pipeline::Op::kLoss) {
      if (waits) return false;
      waits = true;
    }
    if (at.unit == 0) waits = false;
  }
  return true;
}

// How far ahead of their use weights are gathered (a window of 0: not at all), and what sleeps is
// fetched.
struct Prefetch {
  std::vector<core::Elements> of_unit;
  core::Elements window;
  offload::Reads state;
};

Prefetch prefetch_of(const TrainOptions& options, const model::Model& model, const RunShape& run) {
  Prefetch out;
  // What comes down to a host is a gradient, whose norm must be known.
  const bool ahead = options.offload.reads_ahead && !state_on_host(options);
  const auto early =
      run.params_sleep ? offload::Reads::kBehindForwards : offload::Reads::kFromStart;
  out.state = ahead ? early : offload::Reads::kInPlace;
  for (int unit = 0; unit < model.table_count(); ++unit) {
    const core::ParamTable* const frozen = model.frozen_table(unit);
    out.of_unit.push_back(model.table(unit).elements() +
                          (frozen != nullptr ? frozen->elements() : core::Elements(0)));
  }
  for (const core::ParamTable* tied :
       {model.head->tied_params(), model.head->frozen_tied_params()}) {
    const auto head = static_cast<std::size_t>(model.head_unit());
    if (tied != nullptr) out.of_unit[head] += tied->elements();
  }
  const bool go_up = params_leave_device(options) && options.overlap;
  if (!run.overlap && !run.params_sleep && !go_up) return out;
  const core::Elements largest = std::ranges::max(out.of_unit);
  out.window = core::Elements(options.prefetch_elements.value_or(largest.count()));
  if (!run.params_sleep) return out;
  // A disk is read while the unit before computes, unless one buffer must do, or nothing may be
  // gathered ahead.
  const bool in_turn = options.offload.param_buffers == 1 || options.prefetch_elements == 0;
  out.window = in_turn ? core::Elements(0) : std::max(out.window, largest);
  return out;
}

// `own`: name of the user's own schedule.
void check_programs(const std::vector<Program>& programs, const pipeline::ProgramRules& rules,
                    const std::string& own) {
  const auto refusal = pipeline::validate(programs, rules);
  const std::string why = refusal ? pipeline::describe(*refusal, programs) : "";
  FM_USER_CHECK(!refusal || !rules.plan.reduce_every_micro || own.empty(),
                "a schedule of your own must write the gradients of a layer in the order of "
                "micro-batches under ZeRO 2 and 3 and in the canonical order; change the file or "
                "the JSON (",
                own, ": ", why, ")");
  FM_CHECK(!refusal, "the program built for this run is refused: ", why);
}

// Messages, recomputation, ZeRO and prefetch, in this order.
std::vector<Program> zero_programs(std::vector<Program> programs,
                                   const pipeline::ProgramRules& rules,
                                   const pipeline::InstructionTime& times,
                                   const Prefetch& prefetch) {
  if (rules.validates) programs = pipeline::insert_validation(programs, rules.units);
  programs = pipeline::insert_p2p(programs, rules.units, times);
  for (int rank = 0; rank < rules.units.pipe_ranks(); ++rank) {
    Program& program = programs[static_cast<std::size_t>(rank)];
    if (rules.recompute) program = pipeline::insert_recompute(program, rules.units);
    program = zero::insert_zero(program, rules.plan, rules.units, rank);
    program = zero::insert_prefetch(program, rules.units, prefetch.of_unit, prefetch.window);
  }
  return programs;
}

// What sleeps; then the proof.
std::vector<Program> finished_programs(std::vector<Program> programs,
                                       const pipeline::ProgramRules& rules, offload::Reads reads,
                                       const std::string& own) {
  for (Program& program : programs) {
    program = pipeline::insert_rest(program, rules.gradients, rules.units);
    program = offload::insert_offload(program, rules, reads);
  }
  check_programs(programs, rules, own);
  return programs;
}

// How many blocks' state has room where the smaller end's has it (pipeline/ring_places.h). 1 where
// parameters sleep, whose large matrices are tiles, or gradients take the same places.
int end_blocks_of(const TrainOptions& options, const model::Model& model, const RunShape& run,
                  const pipeline::ProgramRules& rules) {
  const bool on_disk = tiers_of_run(options, run.params_sleep).tiers.moments == core::Tier::kNvme;
  if (!on_disk || run.params_sleep || rules.gradients.places > 0) return 1;
  const core::ParamTable* const tied = model.head->tied_params();
  const core::Elements head =
      tied != nullptr ? tied->elements() : model.table(model.head_unit()).elements();
  core::Elements block(1);
  for (int unit = 0; unit < model.table_count(); ++unit) {
    if (rules.units.is_block(unit)) block = std::max(block, model.table(unit).elements());
  }
  const std::int64_t fit = std::min(model.table(0).elements(), head) / block;
  return static_cast<int>(std::clamp<std::int64_t>(fit, 1, std::max(model.head_unit() - 1, 1)));
}

// `first`: the expanded program of pipe rank 0.
pipeline::ProgramRules training_rules(const TrainOptions& options, const RunShape& run,
                                      pipeline::Placement units, const Program& first) {
  units.one_tied_gradient = units.tied && run.mesh.pipe == 1 &&
                            options.sum_order == core::SumOrder::kFast &&
                            writes_tied_in_turn(first);
  return {.units = std::move(units),
          .micros = run.micros(),
          .plan = run.sharding,
          .recompute = options.recompute,
          .validates = options.post_validation && run.mesh.pipe > 1,
          .awake = tiers_of_run(options, run.params_sleep).awake};
}

pipeline::ProgramRules evaluation_rules(const pipeline::ProgramRules& training) {
  return {.units = training.units.evaluating(), .micros = training.micros, .plan = training.plan};
}

}  // namespace

RunPrograms build_programs(const TrainOptions& options, const model::Model& model,
                           const RunShape& run, const pipeline::Placement& placed,
                           const RunSchedule& schedule) {
  const std::string own = options.own_schedule ? options.own_schedule->name : "";
  const Prefetch prefetch = prefetch_of(options, model, run);
  const pipeline::UnitOrder order = unit_order_of(options);
  std::vector<Program> units = expanded(schedule.scheduled, placed, order);
  pipeline::ProgramRules rules = training_rules(options, run, placed, units.front());
  std::vector<Program> train = zero_programs(std::move(units), rules, schedule.times, prefetch);
  rules.gradients = gradient_ring_of(options, run, rules, train);
  rules.end_blocks = end_blocks_of(options, model, run, rules);
  train = finished_programs(std::move(train), rules, prefetch.state, own);
  std::vector<Program> ahead;
  if (rules.validates) {
    ahead = pipeline::with_norm_in_parts(train);
    check_programs(ahead, rules, own);
  }
  const pipeline::ProgramRules evaluating = evaluation_rules(rules);
  std::vector<Program> eval =
      zero_programs(expanded(evaluation_of(schedule.pipe), evaluating.units, order), evaluating,
                    schedule.times, prefetch);
  eval = finished_programs(std::move(eval), evaluating, prefetch.state, own);
  return {std::move(rules), std::move(train), std::move(eval), std::move(ahead)};
}

}  // namespace fm::engine
