// RMSNorm (rmsnorm.h) over rows whose elements several ranks share. Each rank computes what its
// part contributes in fp64, the ranks add up, and each goes on with the sums.
#pragma once

#include <cstdint>

#include "core/work.h"
#include "kernels/rows.h"

namespace fm::kernels {

struct SplitShape {
  std::int64_t rows = 0;
  std::int64_t width = 0;  // elements of a row that this rank has
  std::int64_t all = 0;    // elements of a whole row
  bool counts = true;      // false: another rank has the same part, and its sums count
};

// squares [rows] of this rank's part, out of the rstd [rows] that rmsnorm_rstd gives for it with
// eps 0; zero where the part does not count.
void split_squares(const core::Work& work, const SplitShape& shape, const float* rstd,
                   double* squares);
// rstd [rows] of whole rows, out of the sums [rows] over all ranks.
void split_rstd(const core::Work& work, const SplitShape& shape, double eps, const double* squares,
                float* rstd);

template <class T>
struct SplitNormBackward {
  const T* x = nullptr;          // [rows, width]
  const T* weight = nullptr;     // [width]
  const float* rstd = nullptr;   // [rows]
  const float* dy = nullptr;     // [rows, width]
  T* dx = nullptr;               // [rows, width]
  float* dweight_sum = nullptr;  // [width]
};
// dweight_sum += sum over rows of dy x rstd; products [rows] = sums of dy w x rstd over this rank's
// part; zero where it does not count.
template <class T>
void split_products(const core::Work& work, const SplitShape& shape, const SplitNormBackward<T>& at,
                    double* products);
// dx, out of the sums [rows] over all ranks.
template <class T>
void split_input(const core::Work& work, const SplitShape& shape, const SplitNormBackward<T>& at,
                 const double* products);

}  // namespace fm::kernels
