// The one order of sums: a tree that pairs neighbours level by level; a leftover passes up
// unchanged. n = 5: ((0+1)+(2+3))+4. With 2^k leaves per group, the tree over groups of trees is
// the tree over all leaves, which is why one slot order serves every layout.
#pragma once

#include <cstddef>
#include <span>

namespace fm::core {

// Sums in place; the values are overwritten. Returns 0 for no values.
template <class T>
[[gnu::always_inline]] inline T tree_sum(std::span<T> values) {
  std::size_t count = values.size();
  if (count == 0) return T{};
  while (count > 1) {
    const std::size_t pairs = count / 2;
    for (std::size_t i = 0; i < pairs; ++i) values[i] = values[2 * i] + values[2 * i + 1];
    if (count % 2 == 1) values[pairs] = values[count - 1];
    count = pairs + count % 2;
  }
  return values[0];
}

}  // namespace fm::core
