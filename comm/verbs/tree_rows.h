// The tree of core/tree.h, elementwise over the rows that ranks contributed.
#pragma once

#include <span>

#include "comm/communicator.h"

namespace fm::comm {

// out[i] = tree over r of rows[r][i], for out.elements of fp32, fp64 or int64. `out` may be one of
// the rows; it must not overlap them otherwise. Another dtype is a BugError.
void tree_sum_rows(std::span<const void* const> rows, Span out);

}  // namespace fm::comm
