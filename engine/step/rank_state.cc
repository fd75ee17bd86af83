#include "engine/step/rank_state.h"

#include "comm/agree.h"
#include "comm/staged/staged.h"
#include "core/check.h"
#include "engine/step/sleeping_units.h"

namespace fm::engine {
namespace {

std::vector<zero::GlobalNorm::Part> norm_parts(const RunPlan& plan, const model::Model& model) {
  std::vector<zero::GlobalNorm::Part> parts;
  for (const pipeline::Chunk& chunk : plan.units().chunks()) {
    std::int64_t count = 0;
    for (int unit = chunk.units.first; unit < chunk.units.last; ++unit) {
      std::vector<core::ShardMap> maps = {{model.table(unit).elements(), plan.mesh.shards()}};
      for (int tile = model.unit_count(); tile < model.table_count(); ++tile) {
        if (plan.units().end_of(tile) != unit) continue;
        maps.push_back({model.table(tile).elements(), plan.mesh.shards()});
      }
      count += zero::GlobalNorm::numbers_of(maps, plan.state.rules.order);
    }
    parts.push_back({chunk.pipe_rank, chunk.units.first, chunk.units.last, count});
  }
  return parts;
}

// The groups of a rank, over the world.
struct Groups {
  comm::Communicator& world;
  core::Ledger& ledger;
  const RankDevice& on;

  // Of ranks that exchange tensors, where these lie.
  std::unique_ptr<comm::Communicator> of_tensors(const std::vector<int>& members,
                                                 const comm::NcclUse& use) const {
    std::unique_ptr<comm::Communicator> ranks = world.split(members);
    ranks->set_name(use.name);
    if (on.device == nullptr) return ranks;
    if (on.link != nullptr && ranks->size() > 1) return on.link(std::move(ranks), ledger, use);
    return comm::staged(std::move(ranks), *on.device);
  }
  // For counts, losses, norms and signals.
  comm::Words of_words(const std::vector<int>& members, std::string_view name) const {
    std::unique_ptr<comm::Communicator> ranks = world.split(members);
    ranks->set_name(name);
    return comm::Words(std::move(ranks));
  }
  // The same, narrow between hosts; null where nothing is.
  std::unique_ptr<comm::Communicator> narrow(const std::vector<int>& members, comm::Travel travel,
                                             std::string_view name) const {
    if (travel == comm::Travel::kWhole) return nullptr;
    std::unique_ptr<comm::Communicator> ranks = world.split_narrow(members, travel);
    ranks->set_name(name);
    return on.device == nullptr ? std::move(ranks) : comm::staged(std::move(ranks), *on.device);
  }
  // The same; null for one rank alone.
  std::unique_ptr<comm::Communicator> of_several(const std::vector<int>& members,
                                                 const comm::NcclUse& use) const {
    return members.size() == 1 ? nullptr : of_tensors(members, use);
  }
  // The ranks that add gradients, if they can add in the order that the run asks for.
  std::unique_ptr<comm::Communicator> that_add(const std::vector<int>& members,
                                               core::SumOrder order) const {
    std::unique_ptr<comm::Communicator> ranks = of_tensors(members, {"dp", order});
    FM_USER_CHECK(order != core::SumOrder::kCanonical || ranks->sums() == comm::Sums::kFixedTree,
                  "\"communication_order\": \"canonical\" needs ranks that add in a fixed tree; "
                  "use \"fast\" with these (",
                  ranks->describe(), ")");
    return ranks;
  }
};

// Of the sequence group, the ranks that exchange heads with this one, and those of its ring.
std::vector<int> ulysses_group(const RunPlan& plan, int world_rank) {
  const std::vector<int> all = plan.mesh.sequence_group(world_rank);
  const int ranks = plan.shape.split.ulysses;
  const int first = plan.mesh.position_of(world_rank).sp_rank / ranks * ranks;
  return {all.begin() + first, all.begin() + first + ranks};
}
std::vector<int> ring_group(const RunPlan& plan, int world_rank) {
  const std::vector<int> all = plan.mesh.sequence_group(world_rank);
  const int step = plan.shape.split.ulysses;
  std::vector<int> members;
  for (int at = plan.mesh.position_of(world_rank).sp_rank % step; at < std::ssize(all); at += step)
    members.push_back(all[static_cast<std::size_t>(at)]);
  return members;
}

// Of the ranks that ZeRO cuts units for, those of this rank's host; none where nobody asks.
std::vector<int> near_group(const RunPlan& plan, int world_rank) {
  if (plan.rules.plan.secondary == 1) return {world_rank};
  std::vector<int> members;
  for (const int member : plan.mesh.shard_group(world_rank)) {
    const std::vector<int> hosts = plan.between.hosts_of({world_rank, member});
    if (hosts.front() == hosts.back()) members.push_back(member);
  }
  return members;
}

// What copies touch is page-locked, unless the run does not want that.
std::optional<zero::HostMemory> host_memory_of(core::Device* device, const OffloadOptions& options,
                                               core::HugePages& pages, core::Ledger& ledger) {
  if (device == nullptr) return std::nullopt;
  return zero::HostMemory{ledger, pages, options.pin_memory ? device->host_memory() : pages};
}

// A disk reads into whole pages, and the other ranks of the host read from there.
core::RankMemory slot_memory(const zero::Layout& layout, const core::RankMemory& memory,
                             comm::Communicator& dp) {
  if (!layout.sleeps(zero::Role::kParams) || !memory.source.of_host()) return memory;
  core::MemorySource& shared = dp.memory();
  return {memory.ledger, &shared == &core::heap() ? core::heap_pages() : shared};
}

}  // namespace

RankState::RankState(const TrainOptions& options, const RunPlan& run_plan,
                     const model::Model& run_model, comm::Communicator& run_world,
                     core::Ledger& run_ledger, const RankDevice& on)
    : plan(run_plan),
      model(run_model),
      ledger(run_ledger),
      device(on.device),
      host_memory(host_memory_of(device, options.offload, host_pages, host_ledger)),
      memory(ledger, device == nullptr ? core::heap() : device->memory()),
      world(run_world),
      at(plan.mesh.position_of(world.rank())),
      dp(Groups{world, ledger, on}.that_add(plan.mesh.shard_group(world.rank()),
                                            plan.state.rules.order)),
      dp_gradients(Groups{world, ledger, on}.narrow(plan.mesh.shard_group(world.rank()),
                                                    plan.between.gradients, "dp gradients")),
      dp_weights(Groups{world, ledger, on}.narrow(plan.mesh.shard_group(world.rank()),
                                                  plan.between.weights, "dp weights")),
      dp_near(Groups{world, ledger, on}.of_several(near_group(plan, world.rank()), {"dp_near"})),
      pipe(Groups{world, ledger, on}.of_tensors(
          plan.mesh.pipe_group(world.rank()),
          {"pipe", core::SumOrder::kFast, comm::Messages::kRing})),
      tensor(Groups{world, ledger, on}.of_several(plan.mesh.model_group(world.rank()), {"tensor"})),
      ulysses(Groups{world, ledger, on}.of_several(ulysses_group(plan, world.rank()),
                                                   {.name = "ulysses", .exchanges = true})),
      ring(Groups{world, ledger, on}.of_several(
          ring_group(plan, world.rank()), {"ring", core::SumOrder::kFast, comm::Messages::kRing})),
      words{
          Groups{world, ledger, on}.of_words(plan.mesh.shard_group(world.rank()), "dp words"),
          Groups{world, ledger, on}.of_words(plan.mesh.pipe_group(world.rank()), "pipe words"),
          Groups{world, ledger, on}.of_words(plan.mesh.model_group(world.rank()), "tensor words")},
      pools(plan.pools(at.pipe_rank)),
      layout(plan.layout(at.pipe_rank, plan.mesh.shard_of(at))),
      params(layout, {memory, host_memory ? &*host_memory : nullptr}, *dp,
             {dp_weights.get(), dp_near.get()}),
      grads(layout, memory, dp_gradients == nullptr ? *dp : *dp_gradients, plan.overlap),
      optimizer(layout, {memory, host_memory ? &*host_memory : nullptr}, options.optimizer,
                {dp.get(), {&words.data, &words.tensor}}),
      writes_behind(options.offload.writes_behind),
      tied(layout, memory, *pipe),
      norm(layout, words.data, words.pipe, norm_parts(plan, model), &words.tensor),
      work{.arena = {},
           .threads = plan.threads,
           .queue = device == nullptr ? nullptr : &device->compute()},
      gather_slots(slot_memory(layout, memory, *dp), core::Account::kSlots,
                   {core::bytes_of(layout.gather_slot, model.element), pools.gather_slots},
                   work.queue),
      hidden({ledger, pipe->memory()}, core::Account::kActivations,
             {plan.hidden_slot(), pools.peaks.hidden}, work.queue),
      kept(memory, core::Account::kActivations, {pools.kept, pools.peaks.kept}, work.queue),
      parked(memory, core::Account::kActivations, {pools.parked, pools.peaks.parked}, work.queue),
      between(memory, core::Account::kActivations, {pools.between, pools.peaks.between},
              work.queue),
      scratch(ledger, core::Account::kScratch, pools.arena, memory.source) {
  work.arena = core::Arena(scratch.span(), work.queue);
  if (layout.host_bytes().count() > 0) {
    FM_CHECK(device != nullptr, "this CPU's memory is the host's");
    on_host.emplace(layout, zero::StateMemory(memory, &*host_memory), *device, optimizer,
                    plan.threads);
  }
  if (device != nullptr) {
    crossing = std::make_unique<core::Crossing>(device->compute(), device->host_memory());
    params.lie_beside(*device);
  }
  if (layout.tiers.has(core::Tier::kNvme)) open_tiers(options);
}

// All ranks end where the drive of one refuses.
void RankState::open_tiers(const TrainOptions& options) {
  zero::SleepPlan sleep(layout, {zero::Role::kMoment, zero::Role::kMaster, zero::Role::kGrads});
  const core::Bytes params_asleep = zero::SleepPlan(layout, {zero::Role::kParams}).total();
  const std::string problem = comm::first_problem(
      world, comm::attempt([&] {
        store = open_store(options, options.offload.optimizer_paths, sleep.total(), world.rank());
        params_store =
            open_store(options, options.offload.param_paths, params_asleep, world.rank());
      }));
  FM_MACHINE_CHECK(problem.empty(), core::ExitCode::kStorageFailed, problem);
  if (params_store != nullptr) {
    params.sleep_in(*params_store);
    if (device == nullptr) params_store->will_use(gather_slots.memory());
  }
  if (store == nullptr) return;
  if (layout.sleeps(zero::Role::kGrads)) {
    resting = std::make_unique<zero::RestingGradients>(layout, sleep, *store, grads);
  }
  sleeping =
      std::make_unique<zero::SleepingState>(layout, std::move(sleep), *store, optimizer.rings());
}

data::BatchStream::Layout stream_layout(const RankState& state, const TrainOptions& options) {
  return {.shape = state.plan.shape,
          .micros = state.plan.rules.micros,
          .dp_size = state.plan.mesh.data,
          .dp_rank = state.at.dp_rank,
          .documents_apart = options.document_attention,
          .runs = state.token_runs(),
          .slots = state.plan.batch.slots()};
}

int RankState::tied_flat_param(int unit) const {
  return unit == model.head_unit() ? layout.tied.read : -1;
}

int RankState::tied_end(int unit) const {
  return unit == model.head_unit() ? layout.tied.head : -1;
}

}  // namespace fm::engine
