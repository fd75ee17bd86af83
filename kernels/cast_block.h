// The cast of kernels/pointwise/elements.h as a part of other kernels, which are the events of the
// trace.
#pragma once

#include <cstdint>

#include "kernels/rows.h"

namespace fm::kernels {

template <class From, class To>
void cast_block(RowShape shape, const From* from, std::int64_t from_stride, To* to,
                std::int64_t to_stride);

}  // namespace fm::kernels
