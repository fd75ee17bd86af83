// Rotary position embedding (arXiv 2104.09864), rotate-half layout of Hugging Face: element i of a
// head is paired with i + head_dim / 2. Positions are 0 .. T - 1 in every row.
#pragma once

#include <cstdint>
#include <span>

#include "core/types.h"

namespace fm::kernels {

// cos and sin are [positions, inv_freq.size()]. As transformers does: the angle is rounded to
// fp32 (inv_freq x position), then its cosine and sine are taken; here in fp64, rounded once.
void rope_table(std::span<const float> inv_freq, std::int64_t positions, float* cos, float* sin);

struct RopeTable {
  const float* cos = nullptr;  // [>= T, head_dim / 2]
  const float* sin = nullptr;
  std::int64_t half_dim = 0;
};

// In place over x [B, T, heads, head_dim] of float or core::Bf16, computed in fp32.
template <class T>
void rope(const RopeTable& table, core::BatchShape shape, std::int64_t heads, T* x);
// The transpose of `rope` (rotation by the negative angle): what backward needs.
template <class T>
void rope_inverse(const RopeTable& table, core::BatchShape shape, std::int64_t heads, T* x);

}  // namespace fm::kernels
