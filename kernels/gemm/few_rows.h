// A product of a few rows with a matrix, as decoding needs: every weight is read once, at the speed
// of memory, and narrow ones become fp32 in registers. Sums are fp32 in a fixed order that depends
// on the terms alone; every instruction set gives the same bits.
#pragma once

#include <cstdint>

#include "kernels/gemm/gemm.h"

namespace fm::kernels {

inline constexpr std::int64_t kFewRows = 4;           // more rows are a matter of gemm()
inline constexpr std::int64_t kFewRowsColumns = 256;  // at most, of a tile

// C as gemm() makes it, which computes where there are more than kFewRows rows, and on a queue. A
// lies as it is.
// T is float, core::Bf16 or core::F16; C is float, or T.
template <class T, class C>
void gemm_few_rows(const core::Work& work, const GemmShape& shape, const Operand<T>& a,
                   const Operand<T>& b, const Target<C>& c);

// The part of one thread: columns of the result, at the most kFewRowsColumns.
template <class T>
struct FewRowsTile {
  GemmShape shape;           // n: columns of the tile
  const float* x = nullptr;  // [m, k]
  std::int64_t x_stride = 0;
  Operand<T> weights;     // of the tile
  float* sums = nullptr;  // [m, n], assigned
};
template <class T>
void few_rows_tile(const FewRowsTile<T>& at);

}  // namespace fm::kernels
