#include "kernels/pointwise/squared_norm.h"

#include <algorithm>

#include "kernels/lanes.h"

namespace fm::kernels::FM_SIMD {

void squared_norm(std::span<const float> values, std::span<double> blocks) {
  const auto count = static_cast<std::int64_t>(values.size());
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const std::int64_t from = static_cast<std::int64_t>(b) * kNormBlock;
    const float* block = values.data() + from;
    blocks[b] = lane_sum<double>(std::min(kNormBlock, count - from), [=](auto i) {
      const auto value = static_cast<double>(block[i]);
      return value * value;
    });
  }
}

}  // namespace fm::kernels::FM_SIMD
