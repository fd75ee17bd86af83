// Casts between element types, and the embedding of tokens. T is float, core::Bf16 or core::F16:
// sums and products are fp32 for all, and what is stored is rounded once (core/element.h).
#pragma once

#include <cstdint>
#include <span>

#include "core/element.h"
#include "core/types.h"
#include "core/work.h"
#include "kernels/rows.h"

namespace fm::kernels {

// Between fp32 and bf16 or fp16: to these each element is rounded to the nearest, back is exact.
// Rows of two matrices whose rows begin `from_stride` and `to_stride` elements after each other.
// One of From and To is float; the two do not overlap.
template <class From, class To>
void cast_rows(const core::Work& work, RowShape shape, const From* from, std::int64_t from_stride,
               To* to, std::int64_t to_stride);

// One row.
template <class From, class To>
void cast(const core::Work& work, std::int64_t count, const From* from, To* to) {
  cast_rows(work, RowShape{1, count}, from, count, to, count);
}

// Token embedding: gather of table rows, and its backward.

// out [tokens, width] = rows of table [vocab, width]; ids must be in [0, vocab).
template <class T>
void embedding(const core::Work& work, std::span<const std::int32_t> tokens, const T* table,
               std::int64_t width, T* out);

// The rows of a table that a rank has; ids count all rows.
struct TableRows {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t pad = -1;  // an id whose row takes no gradient; -1: there is none
};

// out [tokens, width] = rows of table [rows.count, width]; zeros for the ids of other rows.
template <class T>
void embedding_part(const core::Work& work, std::span<const std::int32_t> tokens,
                    const TableRows& rows, const T* table, std::int64_t width, float* out);

// dtable [rows.count, width] += rows of dout [tokens, width], in token order (the caller zeroes
// dtable for an assignment). The sums are fp32.
template <class T>
void embedding_backward(const core::Work& work, std::span<const std::int32_t> tokens,
                        const TableRows& rows, const T* dout, std::int64_t width, float* dtable);

}  // namespace fm::kernels
