// Reproducible inputs and the one measure of closeness of the kernel tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace fm::kernels {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

inline Floats random_values(std::int64_t count, std::uint32_t seed, float scale = 1.0F) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  Floats values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(bits);
  return values;
}

inline Doubles to_double(const Floats& values) { return {values.begin(), values.end()}; }

// Largest difference over largest expected magnitude; NaN when anything is NaN.
template <class Got>
double difference(const Doubles& expected, const Got& got) {
  if (expected.size() != got.size()) return INFINITY;
  double worst = 0.0;
  double largest = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double gap = std::abs(expected[i] - static_cast<double>(got[i]));
    if (std::isnan(gap)) return gap;
    worst = std::max(worst, gap);
    largest = std::max(largest, std::abs(expected[i]));
  }
  return largest == 0.0 ? worst : worst / largest;
}

}  // namespace fm::kernels
