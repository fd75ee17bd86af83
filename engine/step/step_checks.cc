// What makes a step one that changes nothing.
#include <limits>
#include <span>

#include "core/element.h"
#include "core/finite.h"
#include "engine/step/step_runtime.h"

namespace fm::engine {

using core::DType;
using core::Elements;

// Gradients are fp32, DeepSpeed's are fp16. What would have overflowed there is an overflow here,
// so that the loss scale goes the same way (runtime/zero/stage_1_and_2.py, stage3.py,
// fp16/fused_optimizer.py): a rank's own gradient, of one micro-batch or summed where the plan adds
// micro-batches up, before it is divided by the number of ranks; then the mean over the ranks,
// without ZeRO their sum. Ours are divided from the first on.
float StepRuntime::limit_of_own() const {
  if (state_.model.element != DType::kF16) return 0.0F;
  return core::kF16Overflow / static_cast<float>(state_.plan.mesh.shards());
}

// Only in fp16.
bool StepRuntime::own_overflow() {
  if (state_.model.element != DType::kF16) return false;
  const bool no_zero = state_.layout.plan.optimizer == core::Home::kEveryRank;
  return found_ || state_.grads.any_reaches(no_zero ? limit_of_own() : core::kF16Overflow);
}

// Collective in fp16.
bool StepRuntime::overflows() {
  if (state_.model.element != DType::kF16) return false;
  std::int64_t any = own_overflow() ? 1 : 0;
  state_.numbers->all_reduce({&any, Elements(1), DType::kI64}).wait();
  state_.pipe->all_reduce({&any, Elements(1), DType::kI64}).wait();
  if (state_.tensor != nullptr) {
    state_.tensor->all_reduce({&any, Elements(1), DType::kI64}).wait();
  }
  return any > 0;
}

// Looks for the first gradient that is not finite, in the order they are written; in fp16 always,
// and for what fp16 does not hold.
void StepRuntime::scan(int micro, int unit, const model::Gradients& written) {
  const float limit = limit_of_own();
  const float least = limit > 0.0F ? limit : std::numeric_limits<float>::infinity();
  if ((!watching_ && limit == 0.0F) || found_) return;
  const auto look = [&](const core::ParamTable& table, const float* base) {
    for (const core::ParamEntry& entry : table.entries()) {
      if (found_) return;
      const std::span values(base + entry.offset.count(),
                             static_cast<std::size_t>(entry.numel.count()));
      if (core::any_reaches(values, least)) found_ = NonFinite{micro, unit, entry.name};
    }
  };
  if (written.tied != nullptr) look(*state_.model.head->tied_params(), written.tied);
  look(state_.model.table(unit), written.own);
}

}  // namespace fm::engine
