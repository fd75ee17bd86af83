// Between fp32 and bf16: to bf16 each element is rounded to the nearest (core/bf16.h), back is
// exact.
#pragma once

#include <cstdint>

#include "core/bf16.h"
#include "kernels/row_shape.h"

namespace fm::kernels {

// Rows of two matrices whose rows begin `from_stride` and `to_stride` elements after each other.
// (From, To) is (float, core::Bf16) or (core::Bf16, float); the two do not overlap.
template <class From, class To>
void cast_rows(RowShape shape, const From* from, std::int64_t from_stride, To* to,
               std::int64_t to_stride);

// The same as a part of another kernel, which is the event of the trace.
template <class From, class To>
void cast_block(RowShape shape, const From* from, std::int64_t from_stride, To* to,
                std::int64_t to_stride);

// One row.
template <class From, class To>
void cast(std::int64_t count, const From* from, To* to) {
  cast_rows(RowShape{1, count}, from, count, to, count);
}

}  // namespace fm::kernels
