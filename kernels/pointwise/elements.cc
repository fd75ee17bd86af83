// Rows that are copied: looked up and added back, or converted.
#include "kernels/pointwise/elements.h"

#include <algorithm>

#include "core/element.h"
#include "kernels/narrow_rows.h"

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
template decltype(kernels::embedding<core::F16>) embedding;
template decltype(kernels::embedding_backward<float>) embedding_backward;
template decltype(kernels::embedding_backward<core::Bf16>) embedding_backward;
template decltype(kernels::embedding_backward<core::F16>) embedding_backward;

template <class From, class To>
void cast_rows(RowShape shape, const From* from, std::int64_t from_stride, To* to,
               std::int64_t to_stride) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    convert_row(shape.width, from, to);
    from += from_stride;
    to += to_stride;
  }
}

template decltype(kernels::cast_rows<float, float>) cast_rows;
template decltype(kernels::cast_rows<float, core::Bf16>) cast_rows;
template decltype(kernels::cast_rows<core::Bf16, float>) cast_rows;
template decltype(kernels::cast_rows<float, core::F16>) cast_rows;
template decltype(kernels::cast_rows<core::F16, float>) cast_rows;

}  // namespace fm::kernels::FM_SIMD
