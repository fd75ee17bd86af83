// One pointer per rank, for as long as a collective is worked on.
#pragma once

#include <array>
#include <cstddef>
#include <memory_resource>
#include <vector>

namespace fm::comm {

// A vector whose memory lies on the stack for up to 64 ranks, on the heap beyond: small collectives
// take less time than a few allocations.
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

}  // namespace fm::comm
