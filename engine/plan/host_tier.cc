#include "engine/plan/host_tier.h"

#include "core/check.h"

namespace fm::engine {

bool updates_on_host(const TrainOptions& options) {
  if (options.device.kind == DeviceKind::kCpu) return false;
  if (options.offload.optimizer == core::Tier::kDevice || options.offload.ratio <= 0.0) {
    return false;
  }
  const optim::OptimizerRow& rule = *options.optimizer.rule;
  FM_USER_CHECK(rule.by_tensor == nullptr && rule.by_matrix == nullptr,
                "an optimizer that the host updates must move each element by itself; choose "
                "AdamW, Lion, Adagrad or SGD, or leave \"offload_optimizer\" out (",
                rule.name, ")");
  FM_USER_CHECK(!options.post_validation || options.pipe_parallel_size == 1,
                "steps that are validated later undo updates, which an optimizer in host memory "
                "does not; leave --post_validation or \"offload_optimizer\" out");
  return true;
}

bool state_on_host(const TrainOptions& options) {
  return options.offload.optimizer == core::Tier::kHost && updates_on_host(options);
}

bool params_leave_device(const TrainOptions& options) {
  if (options.device.kind == DeviceKind::kCpu) return false;
  if (options.offload.params == core::Tier::kDevice) return false;
  FM_USER_CHECK(options.zero_stage == 3,
                "\"offload_param\" needs ZeRO stage 3, which cuts parameters into slices; set "
                "\"stage\": 3, or leave the block out (stage=",
                options.zero_stage, ")");
  FM_USER_CHECK(
      updates_on_host(options),
      "\"offload_param\" beside a device needs an optimizer that the host updates, "
      "because the slices lie there; set \"offload_optimizer\" to \"cpu\" or \"nvme\" with "
      "a ratio above 0, or leave \"offload_param\" out (ratio=",
      options.offload.ratio, ")");
  return true;
}

}  // namespace fm::engine
