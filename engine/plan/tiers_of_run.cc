#include "engine/plan/tiers_of_run.h"

#include <algorithm>

#include "core/check.h"
#include "engine/plan/host_tier.h"
#include "pipeline/ring_places.h"

namespace fm::engine {
namespace {

void check_optimizer_on_disk(const TrainOptions& options) {
  const bool in_memory = options.offload.disk.method == offload::DiskOptions::Method::kMemory;
  FM_USER_CHECK(in_memory || !options.offload.optimizer_paths.empty(),
                "\"offload_optimizer\" to NVMe needs a folder of a drive; set \"nvme_path\"");
  FM_USER_CHECK(options.zero_stage >= 1,
                "\"offload_optimizer\" to NVMe needs ZeRO stage 1, 2 or 3, which cuts the "
                "optimizer's state into slices; set \"stage\", or leave the block out (stage=",
                options.zero_stage, ")");
  FM_USER_CHECK(!options.post_validation,
                "an update that the next step validates needs the state from before in memory; "
                "leave --post_validation or \"offload_optimizer\" to NVMe out");
}

}  // namespace

RunTiers tiers_of_run(const TrainOptions& options, bool params_sleep) {
  RunTiers out;
  const OffloadOptions& offload = options.offload;
  if (offload.optimizer == core::Tier::kNvme) {
    check_optimizer_on_disk(options);
    updates_on_host(options);  // refuses, beside a device, what it cannot update
    out.tiers.moments = out.tiers.masters = core::Tier::kNvme;
  }
  if (state_on_host(options)) out.tiers.moments = out.tiers.masters = core::Tier::kHost;
  if (params_leave_device(options)) out.tiers.params = core::Tier::kHost;
  if (params_sleep) out.tiers.params = core::Tier::kNvme;
  if (out.tiers != core::Tiers()) {
    const bool state = out.tiers.moments != core::Tier::kDevice;
    out.awake =
        std::max(state ? offload.optimizer_buffers : offload.param_buffers, pipeline::kLeastRing);
  }
  return out;
}

}  // namespace fm::engine
