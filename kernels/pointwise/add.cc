#include "kernels/pointwise/add.h"

#include <algorithm>

#include "kernels/lanes.h"
#include "kernels/pointwise/squared_norm.h"

namespace fm::kernels::FM_SIMD {

void add(std::int64_t count, const float* from, float* into) {
  for (std::int64_t i = 0; i < count; ++i) into[i] += from[i];
}

void add_squares(std::int64_t count, const float* from, float* into, std::span<double> blocks) {
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const std::int64_t first = static_cast<std::int64_t>(b) * kNormBlock;
    const float* __restrict a = from + first;
    float* __restrict sum = into + first;
    blocks[b] = lane_sum<double>(std::min(kNormBlock, count - first), [=](auto i) {
      const float value = sum[i] + a[i];
      sum[i] = value;
      return static_cast<double>(value) * static_cast<double>(value);
    });
  }
}

}  // namespace fm::kernels::FM_SIMD
