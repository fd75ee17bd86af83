#include "engine/plan/run_shape.h"

#include <algorithm>
#include <array>

#include "core/check.h"
#include "engine/plan/sequence_layout.h"
#include "engine/plan/sleeping_params.h"
#include "kernels/threads.h"

namespace fm::engine {

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

namespace {

// Rules that move a whole matrix need all of it.
void check_rule(const TrainOptions& options) {
  const optim::OptimizerRow& rule = *options.optimizer.rule;
  FM_USER_CHECK(options.model_parallel_size == 1 || rule.by_matrix == nullptr,
                "an optimizer that moves whole matrices needs --model_parallel_size 1; "
                "use AdamW, Lion, Adagrad, Lamb or SGD, or split the model by --pipe_parallel_size "
                "(optimizer=",
                rule.name, ", model_parallel_size=", options.model_parallel_size, ")");
}

// Programs and what proves them take some 300 bytes of each.
void check_length(int units, std::int64_t micros) {
  constexpr std::int64_t kMost = 1'000'000;
  FM_USER_CHECK(micros <= kMost / units, "a step must have at most ", kMost,
                " forwards of a unit; lower gradient_accumulation_steps (", micros,
                " micro-batches of ", units, " units)");
}

// By the first rank on each of them.
std::vector<int> hosts_of(const comm::Communicator& world) {
  std::vector<int> host_of, first;
  for (int rank = 0; rank < world.size(); ++rank) {
    const auto shares = [&](int other) { return world.may_share(std::array{other, rank}); };
    const auto found = std::ranges::find_if(first, shares);
    host_of.push_back(found == first.end() ? rank : *found);
    if (found == first.end()) first.push_back(rank);
  }
  return host_of;
}

}  // namespace

WorldShape shape_of(const TrainOptions& options, const comm::Communicator& world) {
  const core::Mesh mesh = make_mesh(options, world.size());
  bool shared = options.device.kind == DeviceKind::kCpu;  // a device's memory is its rank's
  for (int rank = 0; rank < world.size(); ++rank) {
    shared = shared && world.may_share(mesh.shard_group(rank));
  }
  return {.ranks = world.size(),
          .sharing = shared ? core::ParamSharing::kOneHost : core::ParamSharing::kPrivate,
          .threads = kernels::kernel_threads(),
          .host_of = hosts_of(world)};
}

std::vector<int> planned_hosts(const TrainOptions& options, int ranks) {
  std::vector<int> host_of;
  if (!options.shared_memory || options.device.kind == DeviceKind::kCuda) return host_of;
  for (int rank = 0; rank < ranks; ++rank) host_of.push_back(rank / options.ranks_per_host);
  return host_of;
}

pipeline::UnitOrder unit_order_of(const TrainOptions& options) {
  return options.own_schedule ? pipeline::UnitOrder::kMicroMajor : options.schedule->units;
}

RunShape shape_run(const TrainOptions& options, const model::Model& model,
                   const WorldShape& world) {
  const core::Mesh mesh = make_mesh(options, world.ranks);
  FM_CHECK(model.share.count == mesh.model, "the model is cut for ", model.share.count,
           " tensor-parallel ranks, not for ", mesh.model);
  check_rule(options);
  const ResolvedBatch batch = resolve_batch(options.batch, mesh.data);
  const core::SequenceSplit split = sequence_split_of(options, model);
  check_length(model.unit_count(), batch.accumulation);
  const bool alone = mesh.shards() == 1;  // then there is nobody to share with
  // What sleeps is one slice of each rank, and becomes whole in slots.
  const bool sleeping = params_sleep(options, model, mesh);
  const core::ParamSharing sharing =
      alone || sleeping ? core::ParamSharing::kPrivate : world.sharing;
  core::ShardPlan sharding =
      core::plan_of(options.zero_stage, options.sum_order, sharing, options.reductions);
  sharding.regather = options.regather;
  const bool by_unit = unit_order_of(options) == pipeline::UnitOrder::kUnitMajor;
  if (by_unit && options.regather == core::Regather::kMicro) {
    sharding.regather = core::Regather::kUnit;
  }
  BetweenHosts between = between_hosts(options, mesh, world);
  if (sharding.params == core::Home::kOneSliceEach) sharding.secondary = between.secondary;
  return {.mesh = mesh,
          .batch = batch,
          .shape = {batch.micro_batch, options.max_seq_len / split.ranks(), split},
          .sharding = sharding,
          .overlap = options.overlap && !alone && world.sharing == core::ParamSharing::kPrivate,
          .threads = world.threads,
          .params_sleep = sleeping,
          .between = std::move(between)};
}

}  // namespace fm::engine
