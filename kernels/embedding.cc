#include "kernels/embedding.h"

#include <algorithm>

namespace fm::kernels::FM_SIMD {

void embedding(std::span<const std::int32_t> tokens, const float* table, std::int64_t width,
               float* out) {
  for (const std::int32_t token : tokens) {
    out = std::copy_n(table + token * width, width, out);
  }
}

void embedding_backward(std::span<const std::int32_t> tokens, const float* dout, std::int64_t width,
                        float* dtable) {
  for (const std::int32_t token : tokens) {
    float* row = dtable + token * width;
    for (std::int64_t i = 0; i < width; ++i) row[i] += dout[i];
    dout += width;
  }
}

}  // namespace fm::kernels::FM_SIMD
