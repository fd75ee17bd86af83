#include "kernels/pointwise/embedding.h"

#include <algorithm>

#include "core/bf16.h"

namespace fm::kernels::FM_SIMD {

template <class T>
void embedding(std::span<const std::int32_t> tokens, const T* table, std::int64_t width, T* out) {
  for (const std::int32_t token : tokens) {
    out = std::copy_n(table + token * width, width, out);
  }
}

template <class T>
void embedding_backward(std::span<const std::int32_t> tokens, const T* dout, std::int64_t width,
                        float* dtable) {
  for (const std::int32_t token : tokens) {
    float* row = dtable + token * width;
    for (std::int64_t i = 0; i < width; ++i) row[i] += core::to_float(dout[i]);
    dout += width;
  }
}

template decltype(kernels::embedding<float>) embedding;
template decltype(kernels::embedding<core::Bf16>) embedding;
template decltype(kernels::embedding_backward<float>) embedding_backward;
template decltype(kernels::embedding_backward<core::Bf16>) embedding_backward;

}  // namespace fm::kernels::FM_SIMD
