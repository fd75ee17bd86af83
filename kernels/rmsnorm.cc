#include "kernels/rmsnorm.h"

#include <cmath>

#include "kernels/lanes.h"

namespace fm::kernels::FM_SIMD {

void rmsnorm_rstd(RowShape shape, const float* x, double eps, float* rstd) {
  const auto width = static_cast<float>(shape.width);
  const auto eps32 = static_cast<float>(eps);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const float* x_D = x + row * shape.width;
    const float squares = lane_sum<float>(shape.width, [=](auto i) { return x_D[i] * x_D[i]; });
    rstd[row] = 1.0F / std::sqrt(squares / width + eps32);
  }
}

void rmsnorm_apply(RowShape shape, const float* x, const float* weight, const float* rstd,
                   float* y) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const float* x_D = x + row * shape.width;
    float* y_D = y + row * shape.width;
    const float scale = rstd[row];
    for (std::int64_t i = 0; i < shape.width; ++i) y_D[i] = weight[i] * (x_D[i] * scale);
  }
}

void rmsnorm_backward(RowShape shape, const RmsnormBackward& at) {
  const auto width = static_cast<float>(shape.width);
  const float* weight = at.weight;
  float* dweight = at.dweight_sum;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const float* x_D = at.x + row * shape.width;
    const float* dy_D = at.dy + row * shape.width;
    float* dx_D = at.dx + row * shape.width;
    const float rstd = at.rstd[row];
    const float dot =
        lane_sum<float>(shape.width, [=](auto i) { return dy_D[i] * weight[i] * (x_D[i] * rstd); });
    const float mean = dot / width;
    for (std::int64_t i = 0; i < shape.width; ++i) dweight[i] += dy_D[i] * (x_D[i] * rstd);
    if (at.residual == nullptr) {
      for (std::int64_t i = 0; i < shape.width; ++i) {
        dx_D[i] = rstd * (dy_D[i] * weight[i] - x_D[i] * rstd * mean);
      }
      continue;
    }
    const float* residual_D = at.residual + row * shape.width;
    for (std::int64_t i = 0; i < shape.width; ++i) {
      dx_D[i] = residual_D[i] + rstd * (dy_D[i] * weight[i] - x_D[i] * rstd * mean);
    }
  }
}

}  // namespace fm::kernels::FM_SIMD
