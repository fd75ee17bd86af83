// On CPUs libc moves memory, with the instructions that it finds.
#include "kernels/pointwise/moves.h"

#include <cstring>

namespace fm::kernels {

void clear(const core::Work& /*work*/, std::int64_t count, float* out) {
  if (count > 0) std::memset(out, 0, static_cast<std::size_t>(count) * sizeof(float));
}

void copy_bytes(const core::Work& /*work*/, std::int64_t bytes, const void* from, void* to) {
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace fm::kernels
