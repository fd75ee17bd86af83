// Elementwise sum of rows in the fixed tree of core/tree.h, never in order of arrival.
#pragma once

#include <cstdint>
#include <span>

namespace fm::kernels {

// out[i] = tree sum over r of rows[r][i], i < count. At least one row; out may be one of the rows.
void tree_add(std::span<const float* const> rows, std::int64_t count, float* out);

}  // namespace fm::kernels
