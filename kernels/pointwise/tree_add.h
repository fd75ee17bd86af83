// Elementwise sum of rows in the fixed tree of core/tree.h, never in order of arrival.
#pragma once

#include <cstdint>
#include <span>

namespace fm::kernels {

// out[i] = tree sum over r of rows[r][i], i < count. At least one row; out may be one of the rows.
void tree_add(std::span<const float* const> rows, std::int64_t count, float* out);

// a[i] = b[i] = a[i] + b[i], i < count: what two ranks keep of a sum, in one pass over both.
void tree_add_to_both(std::int64_t count, float* a, float* b);

}  // namespace fm::kernels
