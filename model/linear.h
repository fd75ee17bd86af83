// y = x W^T and its two gradients, in the shapes of torch.nn.Linear without bias.
#pragma once

#include "kernels/gemm.h"
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

// y [tokens, out] = x [tokens, in] weight [out, in]^T (+ y)
inline void linear(const LinearShape& s, const float* x, const float* weight, float* y,
                   Beta beta = Beta::kZero) {
  kernels::gemm({s.tokens, s.out, s.in}, {x, s.in}, {weight, s.in, kernels::Form::kTransposed},
                {y, s.out, beta});
}

// dx [tokens, in] = dy [tokens, out] weight [out, in] (+ dx)
inline void linear_input(const LinearShape& s, const float* dy, const float* weight, float* dx,
                         Beta beta = Beta::kZero) {
  kernels::gemm({s.tokens, s.in, s.out}, {dy, s.out}, {weight, s.in}, {dx, s.in, beta});
}

// dweight [out, in] = dy [tokens, out]^T x [tokens, in] (+ dweight)
inline void linear_weight(const LinearShape& s, const float* dy, const float* x, float* dweight,
                          Beta beta) {
  kernels::gemm({s.out, s.in, s.tokens}, {dy, s.out, kernels::Form::kTransposed}, {x, s.in},
                {dweight, s.in, beta});
}

}  // namespace fm::model
