// Products by packed panels on several threads: each computes some columns or rows of C, whose bits
// do not depend on the division.
#include <omp.h>

#include <algorithm>

#include "kernels/gemm/libraries.h"
#include "kernels/threads.h"

namespace fm::kernels {
namespace {

// Rows and columns of a part are a multiple of this, a whole number of tiles.
constexpr std::int64_t kPart = 96;

template <class T, class Function>
void run(const GemmShape& shape, const Operand<T>& a, const Operand<T>& b, const Target<float>& c,
         Function* product) {
  const bool by_columns = shape.n >= shape.m;
  const std::int64_t side = by_columns ? shape.n : shape.m;
  const std::int64_t parts = (side + kPart - 1) / kPart;
  const auto threads = static_cast<int>(std::min<std::int64_t>(kernel_threads(), parts));
#pragma omp parallel for num_threads(threads) if (threads > 1)
  for (int thread = 0; thread < threads; ++thread) {
    const std::int64_t begin = parts * thread / threads * kPart;
    const std::int64_t count = std::min(parts * (thread + 1) / threads * kPart, side) - begin;
    if (by_columns) {
      product({shape.m, count, shape.k}, a, part_of(b, 0, begin),
              {c.data + begin, c.stride, c.beta});
    } else {
      product({count, shape.n, shape.k}, part_of(a, begin, 0), b,
              {c.data + begin * c.stride, c.stride, c.beta});
    }
  }
}

}  // namespace

void packed_gemm(const GemmShape& shape, const Operand<float>& a, const Operand<float>& b,
                 const Target<float>& c) {
  run(shape, a, b, c, packed_product<float>);
}

void packed_gemm(const GemmShape& shape, const Operand<core::Bf16>& a, const Operand<core::Bf16>& b,
                 const Target<float>& c) {
  run(shape, a, b, c, packed_product<core::Bf16>);
}

void packed_gemm(const GemmShape& shape, const Operand<core::F16>& a, const Operand<core::F16>& b,
                 const Target<float>& c) {
  run(shape, a, b, c, packed_product<core::F16>);
}

}  // namespace fm::kernels
