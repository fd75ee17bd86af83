#include "engine/step/step_result.h"

#include <algorithm>
#include <cmath>

namespace fm::engine {

float finalize_step(const StepRequest& request, const StepSums& sums, StepResult& result) {
  const bool means = request.loss_reduction == LossReduction::kMeanOfMeans;
  result.loss_sum = sums.loss_sum;
  result.valid = static_cast<std::int64_t>(sums.valid);
  result.loss = !means && result.valid > 0 ? sums.loss_sum / sums.valid : sums.loss_sum;
  result.grad_norm = std::sqrt(sums.squared) / request.loss_scale;
  result.skipped =
      sums.overflows > 0.0 || !std::isfinite(result.grad_norm) || !std::isfinite(result.loss);
  const double clip = request.gradient_clipping;
  const double scale = clip > 0.0 ? std::min(1.0, clip / (result.grad_norm + 1e-6)) : 1.0;
  result.clipped = scale < 1.0;
  return static_cast<float>(scale / request.loss_scale);
}

}  // namespace fm::engine
