// Additions over rows of activations: biases, learned positions and residuals. T as in elements.h.
#pragma once

#include "core/work.h"
#include "kernels/rows.h"

namespace fm::kernels {

// Each row of y [rows, width] += bias [width].
template <class T>
void add_bias(const core::Work& work, RowShape shape, const T* bias, T* y);

// sums [width] += the rows of x [rows, width], row after row in fp32.
template <class T>
void column_sums(const core::Work& work, RowShape shape, const T* x, float* sums);

// y [count] = x + residual, rounded once; y may be either.
template <class T>
void add_residual(const core::Work& work, std::int64_t count, const float* x, const T* residual,
                  T* y);

// x [count] *= factor.
template <class T>
void scale(const core::Work& work, std::int64_t count, float factor, T* x);

}  // namespace fm::kernels
