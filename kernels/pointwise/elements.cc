// Rows that are copied: looked up and added back, or converted.
#include "kernels/pointwise/elements.h"

#include <algorithm>

#include "core/element.h"
#include "kernels/narrow_rows.h"
#include "kernels/without_work.h"

namespace fm::kernels::FM_SIMD {

template <class T>
void embedding(std::span<const std::int32_t> tokens, const T* table, std::int64_t width, T* out) {
  for (const std::int32_t token : tokens) {
    out = std::copy_n(table + token * width, width, out);
  }
}

// The row of a token in the rows of this rank; -1: it is elsewhere.
[[gnu::always_inline]] inline std::int64_t row_of(std::int32_t token, const TableRows& rows) {
  const std::int64_t row = token - rows.first;
  return row >= 0 && row < rows.count ? row : -1;
}

template <class T>
void embedding_part(std::span<const std::int32_t> tokens, const TableRows& rows, const T* table,
                    std::int64_t width, float* out) {
  for (const std::int32_t token : tokens) {
    const std::int64_t row = row_of(token, rows);
    if (row < 0) {
      std::fill_n(out, width, 0.0F);
    } else {
      convert_row(width, table + row * width, out);
    }
    out += width;
  }
}

template <class T>
void embedding_backward(std::span<const std::int32_t> tokens, const TableRows& rows, const T* dout,
                        std::int64_t width, float* dtable) {
  for (const std::int32_t token : tokens) {
    const std::int64_t row = row_of(token, rows);
    if (row >= 0 && token != rows.pad) {
      float* const to = dtable + row * width;
      for (std::int64_t i = 0; i < width; ++i) to[i] += core::to_float(dout[i]);
    }
    dout += width;
  }
}

template WithoutWork<decltype(kernels::embedding<float>)> embedding;
template WithoutWork<decltype(kernels::embedding<core::Bf16>)> embedding;
template WithoutWork<decltype(kernels::embedding<core::F16>)> embedding;
template WithoutWork<decltype(kernels::embedding_part<float>)> embedding_part;
template WithoutWork<decltype(kernels::embedding_part<core::Bf16>)> embedding_part;
template WithoutWork<decltype(kernels::embedding_part<core::F16>)> embedding_part;
template WithoutWork<decltype(kernels::embedding_backward<float>)> embedding_backward;
template WithoutWork<decltype(kernels::embedding_backward<core::Bf16>)> embedding_backward;
template WithoutWork<decltype(kernels::embedding_backward<core::F16>)> embedding_backward;

template <class From, class To>
void cast_rows(RowShape shape, const From* from, std::int64_t from_stride, To* to,
               std::int64_t to_stride) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    convert_row(shape.width, from, to);
    from += from_stride;
    to += to_stride;
  }
}

template WithoutWork<decltype(kernels::cast_rows<float, float>)> cast_rows;
template WithoutWork<decltype(kernels::cast_rows<float, core::Bf16>)> cast_rows;
template WithoutWork<decltype(kernels::cast_rows<core::Bf16, float>)> cast_rows;
template WithoutWork<decltype(kernels::cast_rows<float, core::F16>)> cast_rows;
template WithoutWork<decltype(kernels::cast_rows<core::F16, float>)> cast_rows;

}  // namespace fm::kernels::FM_SIMD
