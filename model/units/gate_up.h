// Where gate and up of an MLP lie.
#pragma once

#include <cstdint>

#include "kernels/pointwise/activations.h"
#include "model/units/carver.h"

namespace fm::model {

// [N, F] each: one behind the other, or as halves of the rows of one array. Without a gate only up.
template <class T>
struct GateUp {
  T* gate = nullptr;
  T* up = nullptr;

  GateUp(const kernels::GatedShape& shape, bool gated, Carver& carver) {
    const auto [N, F] = shape.rows;
    const bool fused = shape.stride > F;
    if (gated) gate = carver.take<T>(N * shape.stride);
    up = fused ? gate + (gate == nullptr ? 0 : F) : carver.take<T>(N * F);
  }
};

}  // namespace fm::model
