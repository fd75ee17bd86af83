// bf16 for the kernel tests: arrays of it, and how far a result may be from the exact one.
#pragma once

#include <limits>

#include "core/bf16.h"
#include "tests/kernels/random_values.h"

namespace fm::kernels {

using Bf16s = std::vector<core::Bf16>;

inline Bf16s to_bf16s(const Floats& values) {
  Bf16s out;
  for (const float value : values) out.push_back(core::to_bf16(value));
  return out;
}
inline Floats to_floats(const Bf16s& values) {
  Floats out;
  for (const core::Bf16 value : values) out.push_back(core::to_float(value));
  return out;
}
inline Bf16s random_bf16s(std::int64_t count, std::uint32_t seed, float scale = 1.0F) {
  return to_bf16s(random_values(count, seed, scale));
}

// Half of the last place of bf16 at `value`.
inline double half_place(double value) {
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(1.0, std::max(exponent, -125) - 9);
}

// The largest distance from the expected numbers beyond half a place of bf16, over the largest
// expected magnitude: what the arithmetic before the one rounding adds. NaN when anything is NaN.
inline double beyond_rounding(const Doubles& expected, const Bf16s& got) {
  if (expected.size() != got.size()) return INFINITY;
  double worst = 0.0;
  double largest = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double gap = std::abs(expected[i] - static_cast<double>(core::to_float(got[i])));
    if (std::isnan(gap)) return gap;
    worst = std::max(worst, gap - half_place(expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return largest == 0.0 ? worst : worst / largest;
}

}  // namespace fm::kernels
