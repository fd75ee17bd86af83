#include "engine/plan/run_plan.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <set>

#include "comm/nccl/nccl.h"
#include "core/check.h"
#include "engine/plan/default_schedule.h"
#include "engine/plan/save_room.h"
#include "engine/plan/tiers_of_run.h"
#include "offload/disk_store.h"
#include "zero/grad_store.h"
#include "zero/sleep_plan.h"

namespace fm::engine {
namespace {

using pipeline::Program;

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

// Ranks that are no power of two, or a step whose last round is short of some, fill no subtree.
int single_slots_of(const TrainOptions& options, const RunShape& run) {
  const bool fills = std::has_single_bit(static_cast<unsigned>(run.mesh.shards())) &&
                     run.batch.is_even(run.mesh.data);
  if (fills || options.sum_order != core::SumOrder::kCanonical) return 0;
  FM_USER_CHECK(
      run.between.gradients == comm::Travel::kWhole,
      "gradients that are narrow between hosts need, in canonical order, a power of two "
      "of data ranks that divides the step's micro-batches; leave communication_data_type "
      "and zero_quantized_gradients out, or change the ranks (",
      run.mesh.shards(), " data ranks, ", run.batch.slots(), " micro-batches)");
  return static_cast<int>(run.batch.slots()) * run.mesh.sequence;
}

// The first world rank of a pipe rank.
int first_rank_of(const core::Mesh& mesh, int pipe_rank) {
  int rank = 0;
  while (mesh.position_of(rank).pipe_rank != pipe_rank) ++rank;
  return rank;
}

// That the stores of a rank take themselves (offload/disk_store.h).
core::Bytes drive_memory(const OffloadOptions& offload, const zero::Layout& layout) {
  using zero::Role;
  if (offload.disk.method == offload::DiskOptions::Method::kMemory) return {};
  const auto of = [&](const std::vector<std::string>& folders, std::initializer_list<Role> roles) {
    const core::Bytes asleep = zero::SleepPlan(layout, roles).total();
    if (asleep.count() == 0) return core::Bytes(0);
    return offload::disk_memory(offload.disk, static_cast<int>(folders.size()), asleep);
  };
  return of(offload.optimizer_paths, {Role::kMoment, Role::kMaster, Role::kGrads}) +
         of(offload.param_paths, {Role::kParams});
}

// The last stage: what every rank's layout follows from.
zero::LayoutInput layout_input(const TrainOptions& options, const model::Model& model,
                               const RunShape& run, const pipeline::ProgramRules& rules) {
  const optim::OptimizerRow& rule = *options.optimizer.rule;
  RunTiers sleep = tiers_of_run(options, run.params_sleep);
  if (rules.gradients.rests) sleep.tiers.grads = core::Tier::kNvme;
  if (rules.gradients.updates_early) sleep.slots = 2;
  const bool on_disk = sleep.tiers.has(core::Tier::kNvme);
  std::vector<const core::ParamTable*> tables, frozen;
  for (int unit = 0; unit < model.table_count(); ++unit) {
    tables.push_back(&model.table(unit));
    frozen.push_back(model.frozen_table(unit));
  }
  return {.rules = {.plan = run.sharding,
                    .order = options.sum_order,
                    .element = model.element,
                    .moments = static_cast<int>(optim::moments_of(options.optimizer).size()),
                    .matrices = rule.by_matrix,
                    .dp_size = run.mesh.shards(),
                    .micros = run.micros(),
                    .single_slots = single_slots_of(options, run),
                    .gradient_travel = run.between.gradients,
                    .weight_travel = run.between.weights,
                    .gradient_slots = run.overlap && run.sharding.reduce_every_micro ? 2 : 1,
                    .tiers = sleep.tiers,
                    .awake = sleep.awake,
                    .end_blocks = rules.end_blocks,
                    .gradients_in_ring = rules.gradients.places > 0,
                    .tier_slots = sleep.slots,
                    .save_slots = on_disk && copies_saves(options) ? 1 : 0,
                    .params_in_memory = core::Elements(options.offload.params_in_host),
                    .beside_device = options.device.kind != DeviceKind::kCpu,
                    .host_share = options.offload.ratio,
                    .undoes = rules.validates,
                    .keeps_gradients = rule.by_matrix != nullptr || rule.by_tensor != nullptr},
          .units = rules.units,
          .tables = std::move(tables),
          .tied = model.head->tied_params(),
          .frozen = std::move(frozen),
          .frozen_tied = model.head->frozen_tied_params()};
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
  sizes.peaks.between = std::max(sizes.peaks.between, other.peaks.between);
  sizes.gather_slots = std::max(sizes.gather_slots, other.gather_slots);
  return sizes;
}

zero::Layout RunPlan::layout(int pipe_rank, int dp_rank) const {
  zero::LayoutInput input = state;
  input.rules.host_of = between.hosts_of(mesh.shard_group(first_rank_of(mesh, pipe_rank)));
  return zero::make_layout(input, pipe_rank, dp_rank);
}

core::Bytes RunPlan::hidden_slot() const {
  const core::Bytes bytes = core::bytes_of(hidden, state.rules.element);
  if (!state.rules.beside_device) return bytes;
  constexpr std::int64_t kAlignment = 256;
  return core::Bytes(core::ceil_div(bytes.count(), kAlignment) * kAlignment);
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
  out.scratch = layout.charged(core::Account::kScratch) + sizes.arena + sums;
  if (layout.beside_device) out.scratch += zero::GradStore::answers_on_device(layout);
  out.activations = hidden_slot() * sizes.peaks.hidden + sizes.kept * sizes.peaks.kept +
                    sizes.parked * sizes.peaks.parked + sizes.between * sizes.peaks.between;
  out.tables = core::bytes_of(rope, core::DType::kF32);
  out.host = layout.host_bytes();
  (layout.beside_device ? out.host : out.drives) += drive_memory(offload, layout);
  const core::Bytes saves = copy_for_save(layout) + part_for_save(layout);
  if (copies_saves) (saves_apart ? out.host : out.saves) += saves;
  return out;
}

std::map<std::string, core::Bytes> RunPlan::wire_bytes(int pipe_rank) const {
  const zero::Layout layout = this->layout(pipe_rank, 0);
  std::map<std::string, core::Bytes> out;
  std::set<int> near;  // flat parameters that the ranks of a host have together
  for (const pipeline::Instruction& at : train[static_cast<std::size_t>(pipe_rank)]) {
    if (at.op == pipeline::Op::kRelease && layout.plan.secondary > 1) {
      for (const int flat_param : layout.read_by(at.unit)) near.insert(layout.home_of(flat_param));
    }
    const bool hidden_leaves = at.op == pipeline::Op::kSendAct || at.op == pipeline::Op::kSendGrad;
    const std::optional<core::Bytes> sent =
        hidden_leaves ? core::bytes_of(hidden, layout.element) : layout.sent_by(at, near);
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

namespace {

// Ranks that share a card add on the host.
core::Bytes memory_of_sums(const TrainOptions& options, int ranks) {
  const bool cards = options.device.kind == DeviceKind::kCuda && !options.device.shared;
  if (!cards || options.sum_order != core::SumOrder::kCanonical) return {};
  comm::check_canonical({"dp", options.sum_order}, ranks);  // as the run's group of this name would
  return comm::CanonicalRows::of(ranks).bytes();
}

RunPlan plan_of(const TrainOptions& options, const model::Model& model, const WorldShape& world) {
  const RunShape run = shape_run(options, model, world);
  PlacedUnits placed = place_units(options, model, run);
  RunSchedule schedule = schedule_run(options, model, run, placed);
  RunPrograms programs = build_programs(options, model, run, placed.units, schedule);
  zero::LayoutInput state = layout_input(options, model, run, programs.rules);
  return {run,
          std::move(placed.needs),
          std::move(schedule),
          std::move(programs),
          std::move(state),
          options.offload,
          copies_saves(options),
          options.device.kind == DeviceKind::kCuda,
          memory_of_sums(options, run.mesh.shards())};
}

}  // namespace

RunPlan make_run_plan(const TrainOptions& asked, const model::Model& model,
                      const WorldShape& world) {
  FM_CHECK(!asked.auto_schedule, "the schedule is chosen before its plan is made");
  const TrainOptions options = with_default_schedule(asked, model, make_mesh(asked, world.ranks));
  if (options.schedule == asked.schedule) return plan_of(asked, model, world);
  try {
    return plan_of(options, model, world);
  } catch (const core::UserError&) {
    return plan_of(asked, model, world);  // nobody chose the other one
  }
}

}  // namespace fm::engine
