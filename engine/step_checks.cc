// What makes a step one that changes nothing.
#include <cmath>

#include "core/element.h"
#include "engine/step_runtime.h"

namespace fm::engine {

using core::DType;
using core::Elements;

// fp32 holds sums that fp16, in which DeepSpeed keeps gradients, does not: they are overflows too,
// so that the loss scale goes the same way.
bool StepRuntime::is_beyond(float gradient) const {
  const bool fp16 = state_.model.element == DType::kF16;
  return !std::isfinite(gradient) || (fp16 && std::fabs(gradient) >= core::kF16Overflow);
}

// Collective where the norm leaves it possible.
bool StepRuntime::any_is_beyond(double squared_norm) {
  constexpr double kLimit = core::kF16Overflow;
  if (state_.model.element != DType::kF16 || squared_norm < kLimit * kLimit) return false;
  std::int64_t beyond = state_.grads.any_reaches(core::kF16Overflow) ? 1 : 0;
  state_.numbers->all_reduce({&beyond, Elements(1), DType::kI64}).wait();
  state_.pipe->all_reduce({&beyond, Elements(1), DType::kI64}).wait();
  return beyond > 0;
}

// Looks for the first gradient that is not finite, in the order they are written.
void StepRuntime::scan(int micro, int unit, const model::Gradients& written) {
  if (!watching_ || found_) return;
  const auto look = [&](const core::ParamTable& table, const float* base) {
    for (const core::ParamEntry& entry : table.entries()) {
      const float* const values = base + entry.offset.count();
      for (std::int64_t i = 0; i < entry.numel.count() && !found_; ++i) {
        if (is_beyond(values[i])) found_ = NonFinite{micro, unit, entry.name};
      }
    }
  };
  if (written.tied != nullptr) look(*state_.model.head->tied_params(), written.tied);
  look(state_.model.table(unit), written.own);
}

}  // namespace fm::engine
