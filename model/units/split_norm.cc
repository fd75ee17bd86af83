#include "model/units/split_norm.h"

#include "core/element.h"
#include "kernels/pointwise/split_norm.h"
#include "model/units/tensor_parallel.h"

namespace fm::model {
namespace {

kernels::SplitShape split_shape(const SplitRows& rows) {
  return {rows.shape.rows, rows.shape.width, rows.all, rows.counts};
}

}  // namespace

template <class T>
void split_rmsnorm_rstd(const SplitRows& rows, double eps, const T* x, core::Work& work,
                        float* rstd) {
  const core::Arena::Scope scope(work.arena);
  double* const squares = work.arena.take<double>(rows.shape.rows);
  kernels::rmsnorm_rstd(work, rows.shape, x, 0.0, rstd);  // of this part: 1 / sqrt(mean(x^2))
  kernels::split_squares(work, split_shape(rows), rstd, squares);
  sum_over(work, rows.tensor, rows.shape.rows, squares);
  kernels::split_rstd(work, split_shape(rows), eps, squares, rstd);
}

template <class T>
void split_rmsnorm_backward(const SplitRows& rows, const NormBackward<T>& arrays,
                            core::Work& work) {
  const core::Arena::Scope scope(work.arena);
  double* const products = work.arena.take<double>(rows.shape.rows);
  const kernels::SplitNormBackward<T> at{.x = arrays.x,
                                         .weight = arrays.weights.weight,
                                         .rstd = arrays.kept.rstd,
                                         .dy = arrays.dy,
                                         .dx = arrays.dx,
                                         .dweight_sum = arrays.sums.weight};
  kernels::split_products(work, split_shape(rows), at, products);
  sum_over(work, rows.tensor, rows.shape.rows, products);
  kernels::split_input(work, split_shape(rows), at, products);
}

#define FM_OF(T)                                                                             \
  template void split_rmsnorm_rstd(const SplitRows&, double, const T*, core::Work&, float*); \
  template void split_rmsnorm_backward(const SplitRows&, const NormBackward<T>&, core::Work&);
FM_OF(float)
FM_OF(core::Bf16)
FM_OF(core::F16)
#undef FM_OF

}  // namespace fm::model
