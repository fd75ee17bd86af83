// The norm of a unit: its kind, its weights, and the statistics that forward saves for each row.
#pragma once

#include "kernels/pointwise/layernorm.h"
#include "kernels/pointwise/rmsnorm.h"
#include "model/families/decoder_config.h"
#include "model/units/carver.h"

namespace fm::model {

struct Norm {
  NormKind kind = NormKind::kRms;
  double eps = 0.0;
};

// [width] each; only LayerNorm may have a bias.
template <class T>
struct NormWeights {
  const T* weight = nullptr;
  const T* bias = nullptr;
};

// One value per row; only LayerNorm has a mean.
struct NormRows {
  float* rstd = nullptr;
  float* mean = nullptr;

  static NormRows take(const Norm& norm, std::int64_t rows, Carver& carver) {
    float* const rstd = carver.take<float>(rows);
    return {rstd, centers(norm.kind) ? carver.take<float>(rows) : nullptr};
  }
};

// The gradients of weight and bias: sums over rows.
struct NormSums {
  float* weight = nullptr;
  float* bias = nullptr;

  static NormSums take(const Norm& norm, std::int64_t width, Carver& carver) {
    float* const weight = carver.take<float>(width);
    return {weight, norm.kind == NormKind::kLayer ? carver.take<float>(width) : nullptr};
  }
};

inline kernels::NormGain gain_of(const Norm& norm) {
  return norm.kind == NormKind::kRmsOnePlus ? kernels::NormGain::kOnePlusWeight
                                            : kernels::NormGain::kWeight;
}

template <class T>
void norm_rows(const core::Work& work, const Norm& norm, kernels::RowShape shape, const T* x,
               const NormRows& kept) {
  if (centers(norm.kind)) {
    kernels::layernorm_statistics(work, shape, x, norm.eps, kept.mean, kept.rstd);
  } else {
    kernels::rmsnorm_rstd(work, shape, x, norm.eps, kept.rstd);
  }
}

// x -> y, with the statistics of the rows.
template <class T>
struct NormApply {
  const T* x = nullptr;
  NormWeights<T> weights;
  NormRows kept;
  T* y = nullptr;
};
template <class T>
void norm_apply(const core::Work& work, const Norm& norm, kernels::RowShape shape,
                const NormApply<T>& arrays) {
  if (centers(norm.kind)) {
    kernels::layernorm_apply<T>(work, shape,
                                {.x = arrays.x,
                                 .weight = arrays.weights.weight,
                                 .bias = arrays.weights.bias,
                                 .mean = arrays.kept.mean,
                                 .rstd = arrays.kept.rstd,
                                 .y = arrays.y});
  } else {
    kernels::rmsnorm_apply(work, shape, arrays.x, {arrays.weights.weight, gain_of(norm)},
                           arrays.kept.rstd, arrays.y);
  }
}

// Both: the statistics of the rows, and x -> y by them.
template <class T>
void norm_forward(const core::Work& work, const Norm& norm, kernels::RowShape shape,
                  const NormApply<T>& arrays) {
  if (centers(norm.kind)) {
    kernels::layernorm<T>(work, shape, norm.eps,
                          {.x = arrays.x,
                           .weight = arrays.weights.weight,
                           .bias = arrays.weights.bias,
                           .mean = arrays.kept.mean,
                           .rstd = arrays.kept.rstd,
                           .y = arrays.y});
  } else {
    kernels::rmsnorm<T>(work, shape, arrays.x, {arrays.weights.weight, gain_of(norm)}, norm.eps,
                        arrays.kept.rstd, arrays.y);
  }
}

// As kernels::RmsnormBackward and LayernormBackward.
template <class T>
struct NormBackward {
  const T* x = nullptr;
  NormWeights<T> weights;
  NormRows kept;
  const float* dy = nullptr;
  const T* residual = nullptr;
  T* dx = nullptr;
  NormSums sums;
};
template <class T>
void norm_backward(const core::Work& work, const Norm& norm, kernels::RowShape shape,
                   const NormBackward<T>& arrays) {
  if (centers(norm.kind)) {
    kernels::layernorm_backward<T>(work, shape,
                                   {.x = arrays.x,
                                    .weight = arrays.weights.weight,
                                    .mean = arrays.kept.mean,
                                    .rstd = arrays.kept.rstd,
                                    .dy = arrays.dy,
                                    .residual = arrays.residual,
                                    .dx = arrays.dx,
                                    .dweight_sum = arrays.sums.weight,
                                    .dbias_sum = arrays.sums.bias});
  } else {
    kernels::rmsnorm_backward<T>(work, shape,
                                 {.x = arrays.x,
                                  .weight = arrays.weights.weight,
                                  .rstd = arrays.kept.rstd,
                                  .dy = arrays.dy,
                                  .residual = arrays.residual,
                                  .dx = arrays.dx,
                                  .dweight_sum = arrays.sums.weight,
                                  .gain = gain_of(norm)});
  }
}

}  // namespace fm::model
