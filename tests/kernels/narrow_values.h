// bf16 and fp16 for the kernel tests: arrays of them, and how far a result may be from the exact
// one.
#pragma once

#include <gtest/gtest.h>

#include <limits>

#include "core/element.h"
#include "tests/kernels/random_values.h"

namespace fm::kernels {

using NarrowTypes = testing::Types<core::Bf16, core::F16>;

template <class T>
using Narrows = std::vector<T>;

template <class T>
Narrows<T> narrowed(const Floats& values) {
  Narrows<T> out;
  for (const float value : values) out.push_back(core::to_element<T>(value));
  return out;
}
template <class T>
Floats to_floats(const Narrows<T>& values) {
  Floats out;
  for (const T value : values) out.push_back(core::to_float(value));
  return out;
}
template <class T>
Narrows<T> random_narrows(std::int64_t count, std::uint32_t seed, float scale = 1.0F) {
  return narrowed<T>(random_values(count, seed, scale));
}

// Half of the last place of T at `value`: 8 bits of bf16 count, 11 of fp16, whose smallest normal
// number is 2^-14.
template <class T>
double half_place(double value) {
  constexpr bool kIsBf16 = std::is_same_v<T, core::Bf16>;
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(1.0, kIsBf16 ? std::max(exponent, -125) - 9 : std::max(exponent, -13) - 12);
}

// The largest distance from the expected numbers beyond half a place of T, over the largest
// expected magnitude: what the arithmetic before the one rounding adds. NaN when anything is NaN.
template <class T>
double beyond_rounding(const Doubles& expected, const Narrows<T>& got) {
  if (expected.size() != got.size()) return INFINITY;
  double worst = 0.0;
  double largest = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double gap = std::abs(expected[i] - static_cast<double>(core::to_float(got[i])));
    if (std::isnan(gap)) return gap;
    worst = std::max(worst, gap - half_place<T>(expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return largest == 0.0 ? worst : worst / largest;
}

}  // namespace fm::kernels
