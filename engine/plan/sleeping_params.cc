#include "engine/plan/sleeping_params.h"

#include "core/check.h"
#include "core/shard_plan.h"
#include "engine/plan/host_tier.h"

namespace fm::engine {

bool params_sleep(const TrainOptions& options, const model::Model& model, const core::Mesh& mesh) {
  if (options.offload.params != core::Tier::kNvme) return false;
  FM_USER_CHECK(options.zero_stage == 3,
                "\"offload_param\" to NVMe needs ZeRO stage 3, which cuts parameters into slices; "
                "set \"stage\": 3, or leave the block out (stage=",
                options.zero_stage, ")");
  params_leave_device(options);  // refuses, beside a device, what the host cannot update
  FM_USER_CHECK(!options.post_validation || options.pipe_parallel_size == 1,
                "\"offload_param\" to NVMe and --post_validation do not go together; leave one of "
                "them out");
  core::Elements all;
  const auto add = [&](const core::ParamTable* table) {
    if (table != nullptr) all += core::ShardMap{table->elements(), mesh.shards()}.slice();
  };
  for (int unit = 0; unit < model.table_count(); ++unit) {
    add(&model.table(unit));
    add(model.frozen_table(unit));
  }
  return all.count() > options.offload.params_in_host;
}

}  // namespace fm::engine
