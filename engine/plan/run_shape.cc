#include "engine/plan/run_shape.h"

#include "core/check.h"
#include "engine/plan/sequence_layout.h"
#include "kernels/threads.h"

namespace fm::engine {
namespace {

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

}  // namespace

WorldShape shape_of(const TrainOptions& options, const comm::Communicator& world) {
  const core::Mesh mesh = make_mesh(options, world.size());
  bool shared = options.device.kind == DeviceKind::kCpu;  // a device's memory is its rank's
  for (int rank = 0; rank < world.size(); ++rank) {
    shared = shared && world.may_share(mesh.shard_group(rank));
  }
  return {.ranks = world.size(),
          .sharing = shared ? core::ParamSharing::kOneHost : core::ParamSharing::kPrivate,
          .threads = kernels::kernel_threads()};
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
  const core::ParamSharing sharing = alone ? core::ParamSharing::kPrivate : world.sharing;
  core::ShardPlan sharding =
      core::plan_of(options.zero_stage, options.sum_order, sharing, options.reductions);
  sharding.regather = options.regather;
  return {.mesh = mesh,
          .batch = batch,
          .shape = {batch.micro_batch, options.max_seq_len / split.ranks(), split},
          .sharding = sharding,
          .overlap = options.overlap && !alone && world.sharing == core::ParamSharing::kPrivate,
          .threads = world.threads};
}

}  // namespace fm::engine
