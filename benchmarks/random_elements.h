// Reproducible inputs of the benchmarks.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "core/element.h"

namespace fm {

inline std::vector<float> random_values(std::int64_t count) {
  std::mt19937 bits(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(bits);
  return values;
}

template <class T>
std::vector<T> random_elements(std::int64_t count) {
  std::vector<T> elements;
  for (const float value : random_values(count)) elements.push_back(core::to_element<T>(value));
  return elements;
}

}  // namespace fm
