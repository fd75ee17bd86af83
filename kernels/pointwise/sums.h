// Sums of gradients, and of their squares.
#pragma once

#include <cstdint>
#include <span>

#include "core/work.h"

namespace fm::kernels {

// into[i] += from[i], i < count.
void add(const core::Work& work, std::int64_t count, const float* from, float* into);

// The same, and the sums of squares of its blocks, in one pass. `from` and `into` do not overlap;
// blocks.size() = norm_blocks(count).
void add_squares(const core::Work& work, std::int64_t count, const float* from, float* into,
                 std::span<double> blocks);

// Sums of squares in fp64 by blocks of 1,024 elements: the leaves of the global gradient norm.

inline constexpr std::int64_t kNormBlock = 1024;

constexpr std::int64_t norm_blocks(std::int64_t count) {
  return (count + kNormBlock - 1) / kNormBlock;
}

// blocks[b] = sum of squares of elements [1024 b, 1024 b + 1024), with the 16 lanes of
// kernels/rows.h. A short last block is as if padded with zeros. blocks.size() =
// norm_blocks(values.size()).
void squared_norm(const core::Work& work, std::span<const float> values, std::span<double> blocks);

// *found = 1 where a value is `limit` > 0 or more, -limit or less, or NaN; else 0.
void any_reaches(const core::Work& work, std::span<const float> values, float limit,
                 std::int32_t* found);

// Elementwise sum of rows in the fixed tree of core/tree.h, never in order of arrival:
// out[i] = tree sum over r of rows[r][i], i < count. At least one row; out may be one of the rows.
void tree_add(const core::Work& work, std::span<const float* const> rows, std::int64_t count,
              float* out);

// a[i] = b[i] = a[i] + b[i], i < count: what two ranks keep of a sum, in one pass over both.
void tree_add_to_both(const core::Work& work, std::int64_t count, float* a, float* b);

}  // namespace fm::kernels
