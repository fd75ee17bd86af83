#include "kernels/add.h"

namespace fm::kernels::FM_SIMD {

void add(std::int64_t count, const float* from, float* into) {
  for (std::int64_t i = 0; i < count; ++i) into[i] += from[i];
}

}  // namespace fm::kernels::FM_SIMD
