// RMSNorm (arXiv 1910.07467) over rows of D: y = w * x * rstd, rstd = 1 / sqrt(mean(x^2) + eps).
// T is float, core::Bf16 or core::F16 (kernels/pointwise/elements.h).
#pragma once

#include <cstdint>

#include "core/work.h"
#include "kernels/rows.h"

namespace fm::kernels {

// rstd [rows] of x [rows, width].
template <class T>
void rmsnorm_rstd(const core::Work& work, RowShape shape, const T* x, double eps, float* rstd);

// What a norm multiplies by: its weight w, or 1 + w.
enum class NormGain : std::uint8_t { kWeight, kOnePlusWeight };
template <class T>
struct NormWeight {
  const T* data = nullptr;  // [width]
  NormGain gain = NormGain::kWeight;
};

// y [rows, width] from x, weight [width] and rstd [rows]; y overlaps no input.
template <class T>
void rmsnorm_apply(const core::Work& work, RowShape shape, const T* x, NormWeight<T> weight,
                   const float* rstd, T* y);

// Both: rstd, and y by it.
template <class T>
void rmsnorm(const core::Work& work, RowShape shape, const T* x, NormWeight<T> weight, double eps,
             float* rstd, T* y);

template <class T>
struct RmsnormBackward {
  const T* x = nullptr;          // [rows, width], the input of the forward
  const T* weight = nullptr;     // [width]
  const float* rstd = nullptr;   // [rows], of the forward
  const float* dy = nullptr;     // [rows, width]; fp32, for it is the sum of up to three products
  const T* residual = nullptr;   // [rows, width] added to dx, or null
  T* dx = nullptr;               // [rows, width]; may be x
  float* dweight_sum = nullptr;  // [width]; added to, row after row in fp32
  NormGain gain = NormGain::kWeight;
};

// With n = x * rstd and g = dy * w:
// dx = rstd * (g - n * mean(g * n)) + residual; dweight_sum += sum over rows of dy * n.
template <class T>
void rmsnorm_backward(const core::Work& work, RowShape shape, const RmsnormBackward<T>& at);

}  // namespace fm::kernels
