// Products of fp32 in builds with sanitizers, which oneDNN and the packed panels stay out of: one
// sum after the other, in fp64.
#include "kernels/gemm/gemm.h"

namespace fm::kernels {
namespace {

double at(const Operand<float>& of, std::int64_t row, std::int64_t col) {
  const bool transposed = of.form == Form::kTransposed;
  return static_cast<double>(of.data[transposed ? col * of.stride + row : row * of.stride + col]);
}

}  // namespace

void gemm(const core::Work&, const GemmShape& shape, const Operand<float>& a,
          const Operand<float>& b, const Target<float>& c) {
  const float* const before = c.addend != nullptr ? c.addend : c.data;
  for (std::int64_t row = 0; row < shape.m; ++row) {
    for (std::int64_t col = 0; col < shape.n; ++col) {
      const std::int64_t place = row * c.stride + col;
      double sum = c.beta == Beta::kOne ? static_cast<double>(before[place]) : 0.0;
      for (std::int64_t k = 0; k < shape.k; ++k) sum += at(a, row, k) * at(b, k, col);
      c.data[place] = static_cast<float>(sum);
    }
  }
}

}  // namespace fm::kernels
