#include "engine/plan/run_plan.h"

#include <algorithm>
#include <bit>

#include "core/check.h"
#include "engine/plan/pipe_schedule.h"
#include "engine/plan/plan_simulation.h"
#include "engine/plan/sequence_layout.h"
#include "offload/insert_offload.h"
#include "pipeline/passes.h"
#include "pipeline/post_validation.h"
#include "pipeline/schedule_study.h"
#include "pipeline/schedules.h"
#include "zero/insert_prefetch.h"
#include "zero/insert_zero.h"

namespace fm::engine {
namespace {

using pipeline::Program;

core::Mesh make_mesh(const TrainOptions& options, int world_size) {
  const int fixed =
      options.pipe_parallel_size * options.model_parallel_size * options.sequence_parallel_size;
  FM_USER_CHECK(
      options.pipe_parallel_size >= 1 && options.model_parallel_size >= 1 &&
          options.sequence_parallel_size >= 1,
      "parallel sizes must be at least 1; pass 1 for what is not split (pipe_parallel_size=",
      options.pipe_parallel_size, ", model_parallel_size=", options.model_parallel_size,
      ", sequence_parallel_size=", options.sequence_parallel_size, ")");
  FM_USER_CHECK(world_size % fixed == 0,
                "the number of ranks must be a multiple of pipe_parallel_size x "
                "model_parallel_size x sequence_parallel_size; start a multiple of ",
                fixed, " ranks (ranks=", world_size,
                ", pipe_parallel_size=", options.pipe_parallel_size,
                ", model_parallel_size=", options.model_parallel_size,
                ", sequence_parallel_size=", options.sequence_parallel_size, ")");
  return {.pipe = options.pipe_parallel_size,
          .data = world_size / fixed,
          .model = options.model_parallel_size,
          .sequence = options.sequence_parallel_size};
}

// Programs and what proves them take some 300 bytes of each.
void check_length(int units, std::int64_t micros) {
  constexpr std::int64_t kMost = 1'000'000;
  FM_USER_CHECK(micros <= kMost / units, "a step must have at most ", kMost,
                " forwards of a unit; lower gradient_accumulation_steps (", micros,
                " micro-batches of ", units, " units)");
}

std::vector<Program> expanded(const std::vector<Program>& scheduled,
                              const pipeline::Placement& units) {
  std::vector<Program> programs;
  for (std::size_t rank = 0; rank < scheduled.size(); ++rank) {
    programs.push_back(pipeline::expand_units(scheduled[rank], units, static_cast<int>(rank)));
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

// How far ahead of their use weights are gathered; a window of 0: not at all.
struct Prefetch {
  std::vector<core::Elements> of_unit;
  core::Elements window;
};

Prefetch prefetch_of(const TrainOptions& options, const RunPlan& plan) {
  Prefetch out;
  for (std::size_t unit = 0; unit < plan.state.tables.size(); ++unit) {
    const core::ParamTable* const frozen = plan.state.frozen[unit];
    out.of_unit.push_back(plan.state.tables[unit]->elements() +
                          (frozen != nullptr ? frozen->elements() : core::Elements(0)));
  }
  for (const core::ParamTable* tied : {plan.state.tied, plan.state.frozen_tied}) {
    if (tied != nullptr) out.of_unit.back() += tied->elements();
  }
  if (!plan.overlap) return out;
  const core::Elements largest = std::ranges::max(out.of_unit);
  out.window = core::Elements(options.prefetch_elements.value_or(largest.count()));
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

// The passes behind the schedule, in order (ARCHITECTURE.md, "From options to programs").
std::vector<Program> finished_programs(std::vector<Program> programs,
                                       const pipeline::ProgramRules& rules,
                                       const pipeline::InstructionTime& times,
                                       const Prefetch& prefetch, const std::string& own) {
  if (rules.validates) programs = pipeline::insert_validation(programs, rules.units);
  programs = pipeline::insert_p2p(programs, rules.units, times);
  for (int rank = 0; rank < rules.units.pipe_ranks(); ++rank) {
    Program& program = programs[static_cast<std::size_t>(rank)];
    if (rules.recompute) program = pipeline::insert_recompute(program, rules.units);
    program = zero::insert_zero(program, rules.plan, rules.units, rank);
    program = zero::insert_prefetch(program, rules.units, prefetch.of_unit, prefetch.window);
    program = offload::insert_offload(program, core::Tier::kDevice);
  }
  check_programs(programs, rules, own);
  return programs;
}

// Bytes of this part; FLOPs of the one that decides.
std::vector<pipeline::UnitFootprint> footprints(const model::Model& model, core::BatchShape shape) {
  const model::Model& deciding = model.deciding();
  std::vector<pipeline::UnitFootprint> out;
  for (int unit = 0; unit < model.unit_count(); ++unit) {
    const model::UnitSizes sizes = model.sizes(unit, shape);
    const bool head = unit == model.head_unit();
    pipeline::UnitFootprint at;
    at.kept = sizes.kept;
    at.parked = sizes.parked;
    at.scratch = sizes.scratch;
    at.forward_flops = head ? deciding.head->forward_flops(shape)
                            : deciding.units[static_cast<std::size_t>(unit)]->forward_flops(shape);
    out.push_back(at);
  }
  return out;
}

core::Bytes sent_to_peers(const RunPlan& plan, const pipeline::Instruction& at) {
  using pipeline::Op;
  if (pipeline::row_of(at.op).forwards == 0.0) return {};
  const PeerBytes& peers = plan.to_peers[static_cast<std::size_t>(plan.units().unit_of(at))];
  if (at.op == Op::kLoss) return peers.forward + peers.input;
  if (at.op == Op::kBackwardInput) return peers.input;
  if (at.op == Op::kBackwardWeight) return peers.weight;
  if (at.op == Op::kBackward) return peers.input + peers.weight;
  const bool without_output = at.op == Op::kRecompute && plan.units().ends_segment(at.unit);
  return without_output ? peers.forward : peers.forward + peers.output;
}

// Of a model with so many blocks.
int segment_blocks(const TrainOptions& options, int blocks) {
  if (!options.checkpoint_segments) return options.checkpoint_interval;
  return static_cast<int>(core::ceil_div(blocks, *options.checkpoint_segments));
}

// Forward and backward of a unit, as far as it has one.
double whole_time(const UnitTimes& times, const model::Model& model, int unit) {
  if (unit == model.head_unit()) return times.head;
  const UnitTimes::Phases& own = unit == 0 ? times.embedding : times.block;
  return unit < model.first_trained() ? own.forward : own.whole();
}

// In forwards.
double whole_forwards(int unit, int first_backward) { return unit < first_backward ? 1.0 : 3.0; }

// Costs are measured times, or floating-point operations.
pipeline::UnitWeights unit_weights(const TrainOptions& options, const model::Model& model,
                                   std::span<const pipeline::UnitFootprint> footprints) {
  pipeline::UnitWeights out;
  for (int unit = 0; unit < model.unit_count(); ++unit) {
    const double flops = footprints[static_cast<std::size_t>(unit)].forward_flops *
                         whole_forwards(unit, model.first_trained());
    out.costs.push_back(options.unit_times ? whole_time(*options.unit_times, model, unit) : flops);
    out.parameters.push_back(static_cast<double>(model.table(unit).elements().count()));
  }
  if (const core::ParamTable* const tied = model.head->tied_params()) {
    out.parameters.back() += static_cast<double>(tied->elements().count());
  }
  return out;
}

void check_canonical(const TrainOptions& options, const core::Mesh& mesh) {
  if (options.sum_order != core::SumOrder::kCanonical) return;
  FM_USER_CHECK(std::has_single_bit(static_cast<unsigned>(mesh.shards())),
                "\"communication_order\": \"canonical\" needs a power of two data x sequence "
                "ranks; use 1, 2, 4, 8 ... or \"fast\" (data-parallel size=",
                mesh.data, ", sequence-parallel size=", mesh.sequence, ")");
}

// Tokens that each of the tensor-parallel ranks has of a micro-batch.
std::int64_t own_tokens(const TrainOptions& options, core::BatchShape shape) {
  if (!options.megatron_sequence_parallel) return shape.tokens();
  FM_USER_CHECK(
      options.model_parallel_size > 1 && shape.tokens() % options.model_parallel_size == 0,
      "--megatron_sequence_parallel splits the tokens of a micro-batch between tensor-"
      "parallel ranks; use a --model_parallel_size of 2 or more that divides micro-batch "
      "size x --max_seq_len, or leave it out (model_parallel_size=",
      options.model_parallel_size, ", tokens=", shape.tokens(), ")");
  return shape.tokens() / options.model_parallel_size;
}

// Rules that move a whole matrix need all of it.
void check_rule(const TrainOptions& options) {
  const optim::OptimizerRow& rule = *options.optimizer.rule;
  FM_USER_CHECK(options.model_parallel_size == 1 || rule.by_matrix == nullptr,
                "an optimizer that moves whole matrices needs --model_parallel_size 1; "
                "use AdamW, Lion, Adagrad, Lamb or SGD, or split the model by --pipe_parallel_size "
                "(optimizer=",
                rule.name, ", model_parallel_size=", options.model_parallel_size, ")");
}

zero::StateRules state_rules(const TrainOptions& options, const model::Model& model,
                             const RunPlan& plan) {
  const optim::OptimizerRow& rule = *options.optimizer.rule;
  return {.plan = plan.rules.plan,
          .order = options.sum_order,
          .element = model.element,
          .moments = static_cast<int>(optim::moments_of(options.optimizer).size()),
          .matrices = rule.by_matrix,
          .dp_size = plan.mesh.shards(),
          .micros = plan.rules.micros,
          .gradient_slots = plan.overlap && plan.rules.plan.reduce_every_micro ? 2 : 1,
          .undoes = plan.rules.validates,
          .keeps_gradients = rule.by_matrix != nullptr || rule.by_tensor != nullptr};
}

}  // namespace

pipeline::PoolSizes RunPlan::pools(int pipe_rank) const {
  const auto rank = static_cast<std::size_t>(pipe_rank);
  const auto of = [&](const Program& program, const pipeline::Placement& placement) {
    return pipeline::pool_sizes(program, placement, footprints, rules.recompute, pipe_rank);
  };
  pipeline::PoolSizes sizes = of(train[rank], units());
  const pipeline::PoolSizes other = of(eval[rank], units().evaluating());
  sizes.peaks.hidden = std::max(sizes.peaks.hidden, other.peaks.hidden);
  sizes.peaks.kept = std::max(sizes.peaks.kept, other.peaks.kept);
  sizes.peaks.parked = std::max(sizes.peaks.parked, other.peaks.parked);
  sizes.gather_slots = std::max(sizes.gather_slots, other.gather_slots);
  return sizes;
}

std::vector<double> RunPlan::kept_micros() const {
  const int last = units().head() - 1;  // of the units that keep anything
  const int first = units().has_backward(last) ? units().chunk_of(units().first_backward)
                                               : static_cast<int>(units().chunks().size());
  return pipeline::peak_activations(scheduled, pipe, first);
}

zero::Layout RunPlan::layout(int pipe_rank, int dp_rank) const {
  return zero::make_layout(state, pipe_rank, dp_rank);
}

MemoryForecast RunPlan::memory(int pipe_rank) const {
  const zero::Layout layout = this->layout(pipe_rank, 0);
  const pipeline::PoolSizes sizes = pools(pipe_rank);
  MemoryForecast out;
  out.params = layout.charged(core::Account::kParams);
  out.grads = layout.charged(core::Account::kGrads);
  out.optimizer = layout.charged(core::Account::kOptimizer);
  out.slots = layout.charged(core::Account::kSlots) +
              core::bytes_of(layout.gather_slot, layout.element) * sizes.gather_slots;
  out.scratch = layout.charged(core::Account::kScratch) + sizes.arena;
  out.activations = core::bytes_of(hidden, layout.element) * sizes.peaks.hidden +
                    sizes.kept * sizes.peaks.kept + sizes.parked * sizes.peaks.parked;
  out.tables = core::bytes_of(rope, core::DType::kF32);
  return out;
}

std::map<std::string, core::Bytes> RunPlan::wire_bytes(int pipe_rank) const {
  const zero::Layout layout = this->layout(pipe_rank, 0);
  std::map<std::string, core::Bytes> out;
  for (const pipeline::Instruction& at : train[static_cast<std::size_t>(pipe_rank)]) {
    const bool hidden_leaves = at.op == pipeline::Op::kSendAct || at.op == pipeline::Op::kSendGrad;
    const std::optional<core::Bytes> sent =
        hidden_leaves ? core::bytes_of(hidden, layout.element) : layout.sent_by(at);
    if (sent) out[std::string(pipeline::row_of(at.op).picture)] += *sent;
    const core::Bytes shared = sent_to_peers(*this, at);
    if (shared.count() > 0) out[std::string(pipeline::row_of(at.op).picture)] += shared;
  }
  return out;
}

double RunPlan::forward_flops_per_step() const {
  double forward = 0.0;
  for (const pipeline::UnitFootprint& unit : footprints) forward += unit.forward_flops;
  return forward * forwards_per_step();
}

double RunPlan::flops_per_step() const {
  double all = 0.0;
  for (int unit = 0; unit < units().unit_count(); ++unit) {
    all += footprints[static_cast<std::size_t>(unit)].forward_flops *
           whole_forwards(unit, units().first_backward);
  }
  return all * forwards_per_step();
}

WorldShape shape_of(const TrainOptions& options, const comm::Communicator& world) {
  const core::Mesh mesh = make_mesh(options, world.size());
  bool shared = true;
  for (int rank = 0; rank < world.size(); ++rank) {
    shared = shared && world.may_share(mesh.shard_group(rank));
  }
  return {world.size(), shared ? core::ParamSharing::kOneHost : core::ParamSharing::kPrivate};
}

RunPlan make_run_plan(const TrainOptions& options, const model::Model& model,
                      const WorldShape& world) {
  FM_CHECK(!options.auto_schedule, "the schedule is chosen before its plan is made");
  RunPlan plan;
  plan.schedule = schedule_name(options);
  plan.mesh = make_mesh(options, world.ranks);
  FM_CHECK(model.share.count == plan.mesh.model, "the model is cut for ", model.share.count,
           " tensor-parallel ranks, not for ", plan.mesh.model);
  check_rule(options);
  check_canonical(options, plan.mesh);
  plan.batch = resolve_batch(options.batch, plan.mesh.data);
  const core::SequenceSplit split = sequence_split_of(options, model);
  plan.shape = {plan.batch.micro_batch, options.max_seq_len / split.ranks(), split};
  check_length(model.unit_count(), plan.batch.accumulation);
  plan.pipe = pipe_shape_of(options, static_cast<int>(plan.batch.accumulation));
  plan.state.tied = model.head->tied_params();
  plan.state.frozen_tied = model.head->frozen_tied_params();
  plan.footprints = footprints(model, plan.shape);
  const auto deciding = footprints(model.deciding(), plan.shape);
  plan.rules.units =
      pipeline::split_units(options.partition, unit_weights(options, model.deciding(), deciding),
                            plan.pipe, plan.state.tied != nullptr);
  plan.rules.units.segment_blocks = segment_blocks(options, model.unit_count() - 2);
  plan.rules.units.first_backward = model.deciding().first_trained();
  plan.rules.micros = plan.pipe.micros;
  const bool alone = plan.mesh.shards() == 1;  // then there is nobody to share with
  plan.rules.plan =
      core::plan_of(options.zero_stage, options.sum_order,
                    alone ? core::ParamSharing::kPrivate : world.sharing, options.reductions);
  plan.rules.plan.regather = options.regather;
  plan.rules.recompute = options.recompute;
  plan.overlap = options.overlap && !alone && world.sharing == core::ParamSharing::kPrivate;
  plan.hidden = core::Elements(own_tokens(options, plan.shape) * model.hidden);
  plan.rope = core::Elements(model.rotary * plan.shape.row());
  for (int unit = 0; unit < model.unit_count(); ++unit) {
    const model::UnitSizes sizes = model.sizes(unit, plan.shape);
    const auto& tensor = sizes.to_tensor_peers;
    plan.to_peers.push_back({sizes.sent_forward + tensor.forward, tensor.output,
                             sizes.sent_backward + tensor.input, tensor.weight});
    plan.state.tables.push_back(&model.table(unit));
    plan.state.frozen.push_back(model.frozen_table(unit));
  }
  const Prefetch prefetch = prefetch_of(options, plan);
  plan.pipe.costs =
      phase_costs(options, plan.units(), deciding, core::bytes_of(plan.hidden, model.element));
  plan.scheduled = scheduled_programs(options, plan.pipe);
  check_activation_limit(options, plan.kept_micros());
  auto programs = expanded(plan.scheduled, plan.units());
  plan.rules.units.one_tied_gradient = plan.rules.units.tied && plan.mesh.pipe == 1 &&
                                       options.sum_order == core::SumOrder::kFast &&
                                       writes_tied_in_turn(programs.front());
  const std::string own = options.own_schedule ? options.own_schedule->name : "";
  plan.rules.validates = options.post_validation && plan.mesh.pipe > 1;
  const pipeline::InstructionTime times = instruction_times(options, plan);
  plan.train = finished_programs(std::move(programs), plan.rules, times, prefetch, own);
  if (plan.rules.validates) {
    plan.ahead = pipeline::with_norm_in_parts(plan.train);
    check_programs(plan.ahead, plan.rules, own);
  }

  pipeline::ProgramRules eval_rules = plan.rules;
  eval_rules.validates = false;
  eval_rules.units = plan.units().evaluating();
  eval_rules.recompute = false;
  plan.eval = finished_programs(expanded(evaluation_of(plan.pipe), eval_rules.units), eval_rules,
                                times, prefetch, own);
  plan.state.units = plan.rules.units;
  plan.state.rules = state_rules(options, model, plan);
  return plan;
}

}  // namespace fm::engine
