#include "kernels/pointwise/muon.h"

#include <cmath>

#include "core/tree.h"
#include "kernels/pointwise/sums.h"
#include "kernels/without_work.h"

namespace fm::kernels::FM_SIMD {

extern WithoutWork<decltype(kernels::squared_norm)> squared_norm;

void muon_begin(const MuonStep& step, std::int64_t count, float* grad, float* momentum) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = grad[i] * step.grad_scale;
    momentum[i] = step.keep * momentum[i] + step.take * g;
    grad[i] = step.take * g + step.keep * momentum[i];
  }
}

void muon_move(float keep, float rate, std::int64_t count, const float* direction, float* param) {
  for (std::int64_t i = 0; i < count; ++i) param[i] = keep * param[i] - rate * direction[i];
}

void divide_by_norm(std::span<float> values, std::span<double> blocks) {
  squared_norm(values, blocks);
  const double norm = std::sqrt(core::tree_sum(blocks));
  const auto factor = static_cast<float>(1.0 / (norm + 1e-7));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= factor;
}

void quintic_factor(const Quintic& by, std::int64_t side, const float* squared, float* factor) {
  for (std::int64_t i = 0; i < side * side; ++i) factor[i] = by.b * squared[i] + by.c * factor[i];
  for (std::int64_t i = 0; i < side; ++i) factor[i * (side + 1)] += by.a;
}

}  // namespace fm::kernels::FM_SIMD
