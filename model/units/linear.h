// y = x W^T and its two gradients, with the shapes of torch.nn.Linear without bias. Operands have
// the element type T; sums are fp32, and so are results unless y has type T.
#pragma once

#include "kernels/gemm/gemm.h"
#include "kernels/pointwise/moves.h"
#include "kernels/pointwise/sums.h"
#include "model/unit.h"

namespace fm::model {

using kernels::Beta;

struct LinearShape {
  std::int64_t tokens = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  double flops() const {
    return 2.0 * static_cast<double>(tokens) * static_cast<double>(in) * static_cast<double>(out);
  }
};

inline Beta beta_of(Write write) { return write == Write::kAdd ? Beta::kOne : Beta::kZero; }

// y, to which a product adds what is at `residual`; null: nothing.
template <class T>
kernels::Target<T> onto(const T* residual, T* y, std::int64_t stride) {
  if (residual == nullptr) return {y, stride};
  return {y, stride, Beta::kOne, residual == y ? nullptr : residual};
}

// y [tokens, out] = x [tokens, in] weight [out, in]^T (+ y)
template <class T, class Y>
void linear(const core::Work& work, const LinearShape& s, const T* x, const T* weight, Y* y,
            Beta beta = Beta::kZero) {
  kernels::gemm(work, {s.tokens, s.out, s.in}, {x, s.in},
                {weight, s.in, kernels::Form::kTransposed}, {y, s.out, beta});
}

// dx [tokens, in] = dy [tokens, out] weight [out, in] (+ dx)
template <class T, class X>
void linear_input(const core::Work& work, const LinearShape& s, const T* dy, const T* weight, X* dx,
                  Beta beta = Beta::kZero) {
  kernels::gemm(work, {s.tokens, s.in, s.out}, {dy, s.out}, {weight, s.in}, {dx, s.in, beta});
}

// dweight [out, in] = dy [tokens, out]^T x [tokens, in] (+ dweight)
template <class T>
void linear_weight(const core::Work& work, const LinearShape& s, const T* dy, const T* x,
                   float* dweight, Beta beta) {
  kernels::gemm(work, {s.out, s.in, s.tokens}, {dy, s.out, kernels::Form::kTransposed}, {x, s.in},
                {dweight, s.in, beta});
}

// Writes a finished sum into a gradient: assigns or adds, as `write` says.
inline void write_vector(const core::Work& work, std::int64_t count, const float* sum,
                         float* gradient, Write write) {
  switch (write) {
    case Write::kAssign: kernels::copy(work, count, sum, gradient); break;
    case Write::kAdd: kernels::add(work, count, sum, gradient); break;
  }
}

}  // namespace fm::model
