// The norm of a unit: a kind, its weights wherever they are, and what forward keeps of each row.
#pragma once

#include "kernels/pointwise/elements.h"
#include "kernels/pointwise/norms.h"
#include "model/families/decoder_config.h"
#include "model/units/carver.h"

namespace fm::model {

struct Norm {
  NormKind kind = NormKind::kRms;
  double eps = 0.0;
};

// [width] each; a bias only of LayerNorm.
template <class T>
struct NormWeights {
  const T* weight = nullptr;
  const T* bias = nullptr;
};

// Of each row; a mean only of LayerNorm.
struct NormRows {
  float* rstd = nullptr;
  float* mean = nullptr;

  static NormRows take(const Norm& norm, std::int64_t rows, Carver& carver) {
    float* const rstd = carver.take<float>(rows);
    return {rstd, norm.kind == NormKind::kLayer ? carver.take<float>(rows) : nullptr};
  }
};

// Sums over rows: gradients of weight and bias.
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
void norm_rows(const Norm& norm, kernels::RowShape shape, const T* x, const NormRows& kept) {
  if (norm.kind == NormKind::kLayer) {
    kernels::layernorm_statistics(shape, x, norm.eps, kept.mean, kept.rstd);
  } else {
    kernels::rmsnorm_rstd(shape, x, norm.eps, kept.rstd);
  }
}

// x -> y by the rows' numbers.
template <class T>
struct NormApply {
  const T* x = nullptr;
  NormWeights<T> weights;
  NormRows kept;
  T* y = nullptr;
};
template <class T>
void norm_apply(const Norm& norm, kernels::RowShape shape, const NormApply<T>& at) {
  if (norm.kind == NormKind::kLayer) {
    kernels::layernorm_apply<T>(shape, {.x = at.x,
                                        .weight = at.weights.weight,
                                        .bias = at.weights.bias,
                                        .mean = at.kept.mean,
                                        .rstd = at.kept.rstd,
                                        .y = at.y});
  } else {
    kernels::rmsnorm_apply(shape, at.x, {at.weights.weight, gain_of(norm)}, at.kept.rstd, at.y);
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
void norm_backward(const Norm& norm, kernels::RowShape shape, const NormBackward<T>& at) {
  if (norm.kind == NormKind::kLayer) {
    kernels::layernorm_backward<T>(shape, {.x = at.x,
                                           .weight = at.weights.weight,
                                           .mean = at.kept.mean,
                                           .rstd = at.kept.rstd,
                                           .dy = at.dy,
                                           .residual = at.residual,
                                           .dx = at.dx,
                                           .dweight_sum = at.sums.weight,
                                           .dbias_sum = at.sums.bias});
  } else {
    kernels::rmsnorm_backward<T>(shape, {.x = at.x,
                                         .weight = at.weights.weight,
                                         .rstd = at.kept.rstd,
                                         .dy = at.dy,
                                         .residual = at.residual,
                                         .dx = at.dx,
                                         .dweight_sum = at.sums.weight,
                                         .gain = gain_of(norm)});
  }
}

}  // namespace fm::model
