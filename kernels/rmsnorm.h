// RMSNorm (arXiv 1910.07467) over rows of D: y = w * x * rstd, rstd = 1 / sqrt(mean(x^2) + eps).
#pragma once

#include "kernels/row_shape.h"

namespace fm::kernels {

// rstd [rows] of x [rows, width].
void rmsnorm_rstd(RowShape shape, const float* x, double eps, float* rstd);

// y [rows, width] from x, weight [width] and rstd [rows]; y overlaps no input.
void rmsnorm_apply(RowShape shape, const float* x, const float* weight, const float* rstd,
                   float* y);

struct RmsnormBackward {
  const float* x = nullptr;         // [rows, width], the input of the forward
  const float* weight = nullptr;    // [width]
  const float* rstd = nullptr;      // [rows], of the forward
  const float* dy = nullptr;        // [rows, width]
  const float* residual = nullptr;  // [rows, width] added to dx, or null
  float* dx = nullptr;              // [rows, width]; may be x
  float* dweight_sum = nullptr;     // [width]; added to, row after row in fp32
};

// With n = x * rstd and g = dy * w:
// dx = rstd * (g - n * mean(g * n)) + residual; dweight_sum += sum over rows of dy * n.
void rmsnorm_backward(RowShape shape, const RmsnormBackward& at);

}  // namespace fm::kernels
