// Sums of squares in fp64 by blocks of 1,024 elements: the leaves of the global gradient norm.
#pragma once

#include <cstdint>
#include <span>

namespace fm::kernels {

inline constexpr std::int64_t kNormBlock = 1024;

constexpr std::int64_t norm_blocks(std::int64_t count) {
  return (count + kNormBlock - 1) / kNormBlock;
}

// blocks[b] = sum of squares of elements [1024 b, 1024 b + 1024), with the 16 lanes of lanes.h.
// A short last block is as if padded with zeros. blocks.size() = norm_blocks(values.size()).
void squared_norm(std::span<const float> values, std::span<double> blocks);

}  // namespace fm::kernels
