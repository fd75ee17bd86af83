// RMSNorm of rows whose elements are split over tensor-parallel ranks.
#pragma once

#include "comm/communicator.h"
#include "core/work.h"
#include "model/units/norm.h"

namespace fm::model {

// A part of rows: this rank has `shape.width` of `all` elements. Where several ranks have the same
// part, the first of them `counts`.
struct SplitRows {
  kernels::RowShape shape;
  std::int64_t all = 0;
  bool counts = true;
  comm::Communicator* tensor = nullptr;
};

// Computes rstd [rows] of whole rows from their parts x [rows, width]. Collective; takes `rows`
// doubles of the arena.
template <class T>
void split_rmsnorm_rstd(const SplitRows& rows, double eps, const T* x, core::Work& work,
                        float* rstd);

// Like kernels::rmsnorm_backward without a residual, for this part of the weight. Collective; takes
// `rows` doubles of the arena.
template <class T>
void split_rmsnorm_backward(const SplitRows& rows, const NormBackward<T>& arrays, core::Work& work);

}  // namespace fm::model
