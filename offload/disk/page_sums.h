// What was written to every page of a store, as a CRC-32C: a drive that gives back something else
// is found where it is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/types.h"

namespace fm::offload {

// Invariant: the sum of a page is that of its newest write; of zeros where there was none.
// Thread:    one.
// Lifetime:  of its own.
class PageSums {
 public:
  struct Difference {
    core::Bytes at;
    std::uint32_t read, written;
  };

  explicit PageSums(core::Bytes bytes);
  // Whole pages at `at`.
  void note(core::Bytes at, std::span<const std::byte> bytes);
  // The first page that is not what it was; none: all are.
  std::optional<Difference> compare(core::Bytes at, std::span<const std::byte> bytes) const;

  static core::Bytes memory(core::Bytes bytes);  // of the sums of a store of so many bytes

 private:
  std::uint32_t of_zeros_;
  std::vector<std::uint32_t> sums_;
};

}  // namespace fm::offload
