// RMSNorm of rows whose elements several tensor-parallel ranks have parts of.
#pragma once

#include "comm/communicator.h"
#include "core/work.h"
#include "model/units/norm.h"

namespace fm::model {

// A part of rows: `shape.width` of `all` elements are here. Where several ranks have the same part,
// the first of them `counts`.
struct SplitRows {
  kernels::RowShape shape;
  std::int64_t all = 0;
  bool counts = true;
  comm::Communicator* tensor = nullptr;
};

// rstd [rows] of whole rows, from their parts x [rows, width]. Collective; takes `rows` doubles.
template <class T>
void split_rmsnorm_rstd(const SplitRows& rows, double eps, const T* x, core::Work& work,
                        float* rstd);

// As kernels::rmsnorm_backward, without a residual; sums of this part of the weight. Collective;
// takes `rows` doubles.
template <class T>
void split_rmsnorm_backward(const SplitRows& rows, const NormBackward<T>& at, core::Work& work);

}  // namespace fm::model
