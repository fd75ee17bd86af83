// LayerNorm (arXiv 1607.06450) over rows of D: y = w * (x - mean) * rstd + b (b may be absent),
// with mean the row's and rstd = 1 / sqrt(mean((x - mean)^2) + eps). RMSNorm is in rmsnorm.h. T as
// in elements.h.
#pragma once

#include "core/work.h"
#include "kernels/rows.h"

namespace fm::kernels {

// mean, rstd [rows] of x [rows, width].
template <class T>
void layernorm_statistics(const core::Work& work, RowShape shape, const T* x, double eps,
                          float* mean, float* rstd);

template <class T>
struct LayernormApply {
  const T* x = nullptr;         // [rows, width]
  const T* weight = nullptr;    // [width]
  const T* bias = nullptr;      // [width], or null: none
  const float* mean = nullptr;  // [rows]
  const float* rstd = nullptr;
  T* y = nullptr;  // overlaps no input
};
template <class T>
void layernorm_apply(const core::Work& work, RowShape shape, const LayernormApply<T>& at);

// Both: mean and rstd, and y by them.
template <class T>
struct LayernormForward {
  const T* x = nullptr;
  const T* weight = nullptr;
  const T* bias = nullptr;
  float* mean = nullptr;
  float* rstd = nullptr;
  T* y = nullptr;
};
template <class T>
void layernorm(const core::Work& work, RowShape shape, double eps, const LayernormForward<T>& at);

template <class T>
struct LayernormBackward {
  const T* x = nullptr;         // [rows, width], the input of the forward
  const T* weight = nullptr;    // [width]
  const float* mean = nullptr;  // [rows], of the forward
  const float* rstd = nullptr;
  const float* dy = nullptr;     // [rows, width]
  const T* residual = nullptr;   // [rows, width] added to dx, or null
  T* dx = nullptr;               // [rows, width]; may be x
  float* dweight_sum = nullptr;  // [width]; added to, row after row in fp32
  float* dbias_sum = nullptr;    // the same, or null: there is no bias
};

// With n = (x - mean) * rstd and g = dy * w:
// dx = rstd * (g - mean(g) - n * mean(g * n)) + residual; dweight_sum += dy * n; dbias_sum += dy.
template <class T>
void layernorm_backward(const core::Work& work, RowShape shape, const LayernormBackward<T>& at);

}  // namespace fm::kernels
