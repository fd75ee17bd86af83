// Elementwise addition.
#pragma once

#include <cstdint>
#include <span>

namespace fm::kernels {

// into[i] += from[i], i < count.
void add(std::int64_t count, const float* from, float* into);

// The same, and the sums of squares of its blocks (kernels/pointwise/squared_norm.h) in one pass.
// `from` and `into` do not overlap; blocks.size() = norm_blocks(count).
void add_squares(std::int64_t count, const float* from, float* into, std::span<double> blocks);

}  // namespace fm::kernels
