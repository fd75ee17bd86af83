// Arrays and parts of tables, for the tests of CUDA kernels in emulation and on a card.
#pragma once

#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/variants/table.h"
#include "tests/kernels/narrow_values.h"

namespace fm::emulated {

template <class T, class Three>
const auto& elements_of(const Three& all) {
  if constexpr (std::is_same_v<T, float>) {
    return all.fp32;
  } else if constexpr (std::is_same_v<T, core::Bf16>) {
    return all.bf16;
  } else {
    return all.fp16;
  }
}

// NaN, or another value that no result survives.
template <class T>
std::vector<T> poisoned(std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  if (count > 0) std::memset(static_cast<void*>(values.data()), 0xFF, values.size() * sizeof(T));
  return values;
}

}  // namespace fm::emulated
