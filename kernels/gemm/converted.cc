// Products of bf16 and fp16 by those of fp32, for CPUs that multiply neither, and for targets of
// these types.
#include <algorithm>
#include <memory>

#include "kernels/cast_block.h"
#include "kernels/gemm/libraries.h"

namespace fm::kernels {
namespace {

// Sides of a block: the fp32 of two operands and a target is 5 MiB.
constexpr std::int64_t kSide = 512;
constexpr std::int64_t kDepth = 1024;

struct Blocks {
  float a[kSide * kDepth];
  float b[kDepth * kSide];
  float c[kSide * kSide];
};

// Of this thread, made by its first product.
Blocks& blocks() {
  thread_local const std::unique_ptr<Blocks> kBlocks(new Blocks);
  return *kBlocks;
}

// The first rows and columns of op(X) in fp32.
template <class T>
Operand<float> widened(const Operand<T>& x, RowShape shape, float* to) {
  if (x.form == Form::kTransposed) std::swap(shape.rows, shape.width);
  cast_block(shape, x.data, x.stride, to, shape.width);
  return {to, shape.width, x.form};
}

// bf16 comes here where the CPU multiplies none, so its AMX tiles are no choice.
template <class T>
Gemm<float>* fp32_product() {
  if (std::is_same_v<T, core::F16> && amx_chosen()) return amx_gemm;
  return onednn_gemm;
}

}  // namespace

template <class T>
void converted_gemm(const GemmShape& shape, const Operand<T>& a, const Operand<T>& b,
                    const Target<float>& c) {
  Gemm<float>* const product = fp32_product<T>();
  for (std::int64_t column = 0; column < shape.n; column += kSide) {
    const std::int64_t n = std::min(kSide, shape.n - column);
    for (std::int64_t term = 0; term < shape.k; term += kDepth) {
      const std::int64_t k = std::min(kDepth, shape.k - term);
      const Operand<float> right = widened(part_of(b, term, column), {k, n}, blocks().b);
      for (std::int64_t row = 0; row < shape.m; row += kSide) {
        const std::int64_t m = std::min(kSide, shape.m - row);
        const Operand<float> left = widened(part_of(a, row, term), {m, k}, blocks().a);
        product({m, n, k}, left, right,
                {c.data + row * c.stride + column, c.stride, term > 0 ? Beta::kOne : c.beta});
      }
    }
  }
}

template <class T>
void rounded_gemm(const GemmShape& shape, const Operand<T>& a, const Operand<T>& b,
                  const Target<T>& c, Gemm<T>* product) {
  for (std::int64_t row = 0; row < shape.m; row += kSide) {
    const std::int64_t m = std::min(kSide, shape.m - row);
    for (std::int64_t column = 0; column < shape.n; column += kSide) {
      const std::int64_t n = std::min(kSide, shape.n - column);
      const RowShape block{m, n};
      T* const to = c.data + row * c.stride + column;
      float* const sums = blocks().c;
      if (c.beta == Beta::kOne) cast_block(block, to, c.stride, sums, n);
      product({m, n, shape.k}, part_of(a, row, 0), part_of(b, 0, column), {sums, n, c.beta});
      cast_block(block, sums, n, to, c.stride);
    }
  }
}

template Gemm<core::Bf16> converted_gemm;
template Gemm<core::F16> converted_gemm;
template void rounded_gemm(const GemmShape&, const Operand<core::Bf16>&, const Operand<core::Bf16>&,
                           const Target<core::Bf16>&, Gemm<core::Bf16>*);
template void rounded_gemm(const GemmShape&, const Operand<core::F16>&, const Operand<core::F16>&,
                           const Target<core::F16>&, Gemm<core::F16>*);

}  // namespace fm::kernels
