#include "engine/plan/memory_fit.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "comm/agree.h"
#include "core/check.h"
#include "core/text.h"
#include "engine/plan/auto_schedule.h"
#include "engine/plan/default_schedule.h"
#include "engine/plan/save_room.h"

namespace fm::engine {
namespace {

using core::Bytes;
using Json = nlohmann::json;

// A run that was not asked for.
struct Variant {
  std::string name;
  TrainOptions options;
};

bool may_be_bf16(const TrainOptions& options) { return options.element == core::DType::kF32; }

// The same samples per step in `times` as many micro-batches of a rank.
TrainOptions with_micros(TrainOptions options, const RunPlan& plan, std::int64_t micro_batch,
                         std::int64_t times) {
  if (plan.batch.is_even(plan.mesh.data)) {
    options.batch = {std::nullopt, micro_batch, plan.batch.accumulation * times};
  } else {
    options.batch = {plan.batch.train_batch, micro_batch, std::nullopt};
  }
  return options;
}
// What has to be given beside it, of the same number.
std::string micros_words(const RunPlan& plan, std::int64_t times) {
  if (!plan.batch.is_even(plan.mesh.data)) return "";
  return core::concat(" with gradient_accumulation_steps ", plan.batch.accumulation * times);
}

// In more and smaller micro-batches.
TrainOptions with_micro_batch(const TrainOptions& options, const RunPlan& plan,
                              std::int64_t micro_batch) {
  return with_micros(options, plan, micro_batch, plan.batch.micro_batch / micro_batch);
}

Variant recomputing(TrainOptions options) {
  options.recompute = true;
  return {R"(recomputation ("activation_checkpointing": {}))", options};
}

Variant with_zero_stage(TrainOptions options, int zero_stage) {
  options.zero_stage = zero_stage;
  return {core::concat("ZeRO stage ", zero_stage), options};
}

Variant in_bf16(TrainOptions options) {
  options.element = core::DType::kBF16;
  return {R"("bf16": {"enabled": true})", options};
}

// State in the memory beside devices: the optimizer's alone, then ZeRO 3's parameters, too.
std::vector<Variant> beside_devices(const TrainOptions& options) {
  std::vector<Variant> variants;
  if (options.device.kind == DeviceKind::kCpu) return variants;
  Variant moved{"", options};
  const auto move = [&](core::Tier OffloadOptions::*role, const char* flag) {
    core::Tier& tier = moved.options.offload.*role;
    if (tier != core::Tier::kDevice) return;
    tier = core::Tier::kHost;
    moved.name += (moved.name.empty() ? "" : " ") + std::string(flag);
    variants.push_back(moved);
  };
  move(&OffloadOptions::optimizer, "--offload_optimizer cpu");
  if (options.zero_stage == 3) move(&OffloadOptions::params, "--offload_param cpu");
  return variants;
}

// The same samples per step where data ranks share a row's tokens, or tensors, instead.
std::vector<Variant> sharing(const TrainOptions& options, const RunPlan& plan,
                             const std::string& name, int TrainOptions::*size) {
  std::vector<Variant> sizes;
  for (int times = 2; times <= plan.mesh.data; ++times) {
    if (plan.mesh.data % times != 0) continue;
    Variant shared{"", with_micros(options, plan, plan.batch.micro_batch, times)};
    shared.options.*size *= times;
    shared.name = core::concat(name, " ", shared.options.*size, micros_words(plan, times));
    sizes.push_back(std::move(shared));
  }
  return sizes;
}

// Of each kind of change its sizes, the smallest first.
std::vector<std::vector<Variant>> single_changes(const TrainOptions& options, const RunPlan& plan) {
  const ResolvedBatch& batch = plan.batch;
  std::vector<std::vector<Variant>> kinds(4);
  if (!options.recompute) kinds[0].push_back(recomputing(options));
  for (int zero_stage = options.zero_stage + 1; zero_stage <= 3; ++zero_stage) {
    kinds[1].push_back(with_zero_stage(options, zero_stage));
  }
  for (std::int64_t micro_batch = batch.micro_batch; micro_batch > 1;) {
    micro_batch = micro_batch % 2 == 0 ? micro_batch / 2 : 1;
    kinds[2].push_back({core::concat("train_micro_batch_size_per_gpu ", micro_batch,
                                     micros_words(plan, batch.micro_batch / micro_batch)),
                        with_micro_batch(options, plan, micro_batch)});
  }
  if (may_be_bf16(options)) kinds[3].push_back(in_bf16(options));
  kinds.push_back(beside_devices(options));
  kinds.push_back(
      sharing(options, plan, "--sequence_parallel_size", &TrainOptions::sequence_parallel_size));
  kinds.push_back(
      sharing(options, plan, "--model_parallel_size", &TrainOptions::model_parallel_size));
  return kinds;
}

// bf16 late and only where it is asked for: its fp32 masters may cost more than it saves. What
// moves state through links at every step is last.
std::vector<Variant> all_changes(const TrainOptions& options, const RunPlan& plan, bool bf16) {
  Variant all{"", options};
  std::vector<std::string> names;
  const auto add = [&](const Variant& change) {
    all.options = change.options;
    names.push_back(change.name);
  };
  if (!options.recompute) add(recomputing(all.options));
  if (options.zero_stage < 3) add(with_zero_stage(all.options, 3));
  if (plan.batch.micro_batch > 1) {
    add({"train_micro_batch_size_per_gpu 1", with_micro_batch(all.options, plan, 1)});
  }
  if (bf16) add(in_bf16(all.options));
  std::vector<Variant> together = {{core::join(names, ", ") + " together", all.options}};
  for (const Variant& moved : beside_devices(all.options)) {
    std::vector<std::string> more = names;
    more.push_back(moved.name);
    together.push_back({core::join(more, ", ") + " together", moved.options});
  }
  return together;
}

// The demand of a variant of `run`; nothing where its sizes do not fit together.
std::optional<MemoryDemand> demand_of(const TrainOptions& options, const model::OpenedModel& opened,
                                      const WorldShape& world, const RankLimits& limits) {
  try {
    core::Share share = opened.model.share;
    if (options.element == opened.model.element && options.model_parallel_size == share.count) {
      return tightest_demand(make_run_plan(options, opened.model, world), limits);
    }
    // The first of other ranks, which has the largest part.
    if (options.model_parallel_size != share.count) share = {0, options.model_parallel_size};
    model::ModelChoices choices = choices_of(options, share);
    if (share.count == 1) choices.tile_rows = opened.model.tile_rows;
    const model::Model other = opened.make(choices);
    return tightest_demand(make_run_plan(options, other, world), limits);
  } catch (const core::UserError&) {
    return std::nullopt;
  }
}

std::string with_need(const std::string& name, const MemoryDemand& demand) {
  return core::concat(name, " (", core::human(demand.total), ")");
}

// More hosts like the tightest: "4 hosts like this one, 8 ranks (1.2 GB on each)"; where a device
// is the tightest, more of these: "4 GPUs like this one, a rank on each (1.2 GB on each)"; "":
// none.
std::string more_hosts(const Variant& variant, const model::OpenedModel& opened,
                       const WorldShape& world, const RankLimits& limits,
                       const MemoryDemand& tight) {
  constexpr int kMostRanks = 1024;
  const bool devices = tight.limit.holds == machine::MemoryLimit::Holds::kDevice;
  const int per_host = devices ? variant.options.ranks_per_host : tight.ranks;
  const std::int64_t hosts = core::ceil_div(world.ranks, tight.ranks);
  const std::vector<machine::MemoryLimit>& one = limits[static_cast<std::size_t>(tight.first_rank)];
  for (int times = 2; times * world.ranks <= kMostRanks; times *= 2) {
    const WorldShape larger{times * world.ranks, core::ParamSharing::kPrivate, world.threads,
                            planned_hosts(variant.options, times * world.ranks)};
    const auto demand =
        demand_of(variant.options, opened, larger, limits_of_hosts(one, larger.ranks, per_host));
    if (!demand || !demand->fits()) continue;
    const std::string name =
        devices ? core::concat(larger.ranks, " GPUs like this one, a rank on each")
                : core::concat(hosts * times, " hosts like this one, ", larger.ranks, " ranks");
    return core::concat(name, variant.name.empty() ? "" : ", with ", variant.name, " (",
                        core::human(demand->total), " on each)");
  }
  return "";
}

Bytes need_of(const MemoryForecast& memory, machine::MemoryLimit::Holds holds) {
  using Holds = machine::MemoryLimit::Holds;
  switch (holds) {
    case Holds::kAll: return memory.total() + memory.host;
    case Holds::kDevice: return memory.total();
    case Holds::kHost: return memory.host;
  }
  FM_CHECK(false, "no limit holds ", static_cast<int>(holds));
}

std::string limits_json(const std::vector<machine::MemoryLimit>& limits) {
  Json json = Json::array();
  for (const machine::MemoryLimit& limit : limits) {
    json.push_back({limit.id, limit.name, limit.available.count(), static_cast<int>(limit.holds),
                    limit.swap.count()});
  }
  // Names of control groups may hold any bytes.
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::vector<machine::MemoryLimit> limits_in(const std::string& text) {
  std::vector<machine::MemoryLimit> limits;
  for (const Json& limit : Json::parse(text)) {
    limits.push_back({limit[0].get<std::string>(), limit[1].get<std::string>(),
                      Bytes(limit[2].get<std::int64_t>()),
                      static_cast<machine::MemoryLimit::Holds>(limit[3].get<int>()),
                      Bytes(limit[4].get<std::int64_t>())});
  }
  return limits;
}

// What nobody asked for leaves a fifth of a host's memory to others, such as the page cache that
// data are read through, and makes nothing swap.
RankLimits with_room_to_spare(RankLimits limits) {
  for (std::vector<machine::MemoryLimit>& of_rank : limits) {
    for (machine::MemoryLimit& limit : of_rank) {
      if (limit.holds == machine::MemoryLimit::Holds::kDevice) continue;  // the copy is not there
      const Bytes memory = std::max(limit.available - limit.swap, Bytes(0));
      limit.available = Bytes(memory.count() / 5 * 4);
    }
  }
  return limits;
}

bool has_copy(const RunPlan& plan) {
  for (int rank = 0; rank < plan.mesh.pipe; ++rank) {
    if (copy_for_save(plan.layout(rank, 0)).count() > 0) return true;
  }
  return false;
}

}  // namespace

RankLimits limits_of_hosts(const std::vector<machine::MemoryLimit>& one_host, int ranks,
                           int ranks_per_host) {
  RankLimits limits;
  for (int rank = 0; rank < ranks; ++rank) {
    limits.push_back(one_host);
    for (machine::MemoryLimit& limit : limits.back()) {
      const bool apart = limit.holds == machine::MemoryLimit::Holds::kDevice;
      limit.id += apart ? core::concat(" of rank ", rank)
                        : core::concat(" of host ", rank / ranks_per_host);
    }
  }
  return limits;
}

std::string MemoryDemand::text() const {
  return core::concat(ranks, ranks == 1 ? " rank needs " : " ranks of a host need ",
                      core::human(total),
                      ranks == 1 ? "" : core::concat(", up to ", core::human(largest), " each"),
                      "; ", core::human(limit.available), " are left by ", limit.name);
}

std::optional<MemoryDemand> tightest_demand(const RunPlan& plan, const RankLimits& limits) {
  std::vector<MemoryForecast> of_pipe_rank;
  for (int rank = 0; rank < plan.mesh.pipe; ++rank) of_pipe_rank.push_back(plan.memory(rank));
  std::map<std::string, MemoryDemand> demands;
  for (int rank = 0; rank < plan.mesh.size(); ++rank) {
    const auto pipe_rank = static_cast<std::size_t>(plan.mesh.position_of(rank).pipe_rank);
    for (const machine::MemoryLimit& limit : limits[static_cast<std::size_t>(rank)]) {
      const Bytes need = need_of(of_pipe_rank[pipe_rank], limit.holds);
      if (need.count() == 0) continue;  // of memory beside devices that nothing lies in
      MemoryDemand& demand = demands.try_emplace(limit.id, MemoryDemand{limit, rank}).first->second;
      demand.limit.available = std::min(demand.limit.available, limit.available);
      demand.ranks += 1;
      demand.largest = std::max(demand.largest, need);
      demand.total += need;
    }
  }
  const auto spare = [](const auto& entry) {
    return entry.second.limit.available - entry.second.total;
  };
  const auto tight = std::ranges::min_element(demands, {}, spare);
  if (tight == demands.end()) return std::nullopt;
  return tight->second;
}

std::vector<std::string> ways_to_fit(const TrainOptions& options, const model::OpenedModel& opened,
                                     const WorldShape& world, const RankLimits& limits) {
  const RunPlan plan = make_run_plan(options, opened.model.deciding(), world);
  const std::optional<MemoryDemand> tight = tightest_demand(plan, limits);
  if (!tight || tight->fits()) return {};
  std::vector<std::string> ways;
  const auto try_variant = [&](const Variant& variant) {
    const auto demand = demand_of(variant.options, opened, world, limits);
    const bool fits = demand && demand->fits();
    if (fits) ways.push_back(with_need(variant.name, *demand));
    return fits;
  };
  for (const std::vector<Variant>& kind : single_changes(options, plan)) {
    std::ranges::any_of(kind, try_variant);
  }
  std::vector<Variant> together = all_changes(options, plan, false);
  if (may_be_bf16(options)) {
    for (Variant& each : all_changes(options, plan, true)) together.push_back(std::move(each));
  }
  if (ways.empty()) std::ranges::any_of(together, try_variant);
  std::string hosts = more_hosts({"", options}, opened, world, limits, *tight);
  for (const Variant& all : together) {
    if (hosts.empty() && ways.empty()) hosts = more_hosts(all, opened, world, limits, *tight);
  }
  if (!hosts.empty()) ways.push_back(hosts);
  return ways;
}

TrainOptions with_fitting_schedule(const TrainOptions& options, const model::OpenedModel& opened,
                                   const WorldShape& world, const RankLimits& limits) {
  TrainOptions bare = options;
  bare.save_async = false;  // a schedule goes before saves
  const model::Model& model = opened.model.deciding();
  const auto fits = [&](const RunPlan& plan) {
    const std::optional<MemoryDemand> tight = tightest_demand(plan, limits);
    return !tight || tight->fits();
  };
  TrainOptions out = with_schedule(bare, model, world, fits);
  const core::Mesh mesh = make_mesh(out, world.ranks);
  if (with_default_schedule(out, model, mesh).schedule != out.schedule) {
    TrainOptions kept = out;  // layer-major holds the activations of all micro-batches
    kept.schedule_chosen = true;
    const auto plan_fits = [&](const TrainOptions& at) {
      return fits(make_run_plan(at, model, world));
    };
    if (!plan_fits(out) && plan_fits(kept)) out = std::move(kept);
  }
  out.save_async = options.save_async;
  return out;
}

TrainOptions with_fitting_saves(const TrainOptions& options, const model::Model& model,
                                const WorldShape& world, const RankLimits& limits) {
  if (!copies_saves(options)) return options;
  const RunPlan plan = make_run_plan(options, model, world);
  // Where all that is saved sleeps on a disk, it takes a few MB.
  const std::optional<MemoryDemand> tight =
      tightest_demand(plan, has_copy(plan) ? with_room_to_spare(limits) : limits);
  TrainOptions out = options;
  out.save_async = !tight || tight->fits();
  return out;
}

RunPlan make_fitting_plan(const TrainOptions& given, const model::OpenedModel& opened,
                          comm::Communicator& world,
                          const std::vector<machine::MemoryLimit>& mine) {
  const WorldShape shape = shape_of(given, world);
  RankLimits limits;
  for (const std::string& text : comm::gather_texts(world, limits_json(mine))) {
    limits.push_back(limits_in(text));
  }
  const TrainOptions scheduled = with_fitting_schedule(given, opened, shape, limits);
  // Tensor-parallel ranks have unequal parts; all decide by the largest.
  const model::Model& deciding = opened.model.deciding();
  const TrainOptions options = with_fitting_saves(scheduled, deciding, shape, limits);
  RunPlan plan = make_run_plan(options, deciding, shape);
  const std::optional<MemoryDemand> tight = tightest_demand(plan, limits);
  if (!tight || tight->fits()) {
    return &deciding == &opened.model ? std::move(plan)
                                      : make_run_plan(options, opened.model, shape);
  }
  const std::vector<std::string> ways = ways_to_fit(options, opened, shape, limits);
  throw core::UserError(
      core::ExitCode::kOutOfMemory,
      core::concat("memory must hold what the plan allocates; ",
                   ways.empty() ? "choose a smaller model or shorter sequences"
                                : "any of these would fit: " + core::join(ways, "; "),
                   " (", tight->text(), ")"));
}

}  // namespace fm::engine
