// The sum of the rows that ranks contributed (one pointer each) by the tree of core/tree.h.
#pragma once

#include <array>
#include <cstddef>
#include <memory_resource>
#include <span>
#include <vector>

#include "comm/communicator.h"

namespace fm::comm {

// A vector that is on the stack for up to 64 ranks and on the heap beyond: a small collective takes
// less time than a few allocations.
template <class T>
class RowList {
 public:
  explicit RowList(std::size_t rows) : rows_(rows, &memory_) {}
  RowList(const RowList&) = delete;
  RowList& operator=(const RowList&) = delete;

  T& operator[](std::size_t row) { return rows_[row]; }
  std::size_t size() const { return rows_.size(); }
  const T* data() const { return rows_.data(); }
  auto begin() const { return rows_.begin(); }
  auto end() const { return rows_.end(); }

 private:
  static constexpr std::size_t kOnStack = 64;
  alignas(T) std::array<std::byte, kOnStack * sizeof(T)> stack_;
  std::pmr::monotonic_buffer_resource memory_{stack_.data(), stack_.size()};
  std::pmr::vector<T> rows_;
};

// out[i] = tree over r of rows[r][i], for out.elements of fp32, fp64 or int64. `out` may be one of
// the rows; it must not overlap them otherwise. Another dtype is a BugError.
void tree_sum_rows(std::span<const void* const> rows, Span out);

}  // namespace fm::comm
