// Whether two moves use the same memory.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace fm::offload {

// Two pieces of memory, of one array or of two, have a byte in common.
inline bool share_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::less<const std::byte*> before;
  return before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
}

}  // namespace fm::offload
