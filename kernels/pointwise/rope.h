// Rotary position embedding (arXiv 2104.09864) of the first elements of each head, the rest stays.
// Positions are 0 .. T - 1 in every row, or in every document.
// T is float, core::Bf16 or core::F16 (kernels/pointwise/elements.h).
#pragma once

#include <cstdint>
#include <span>

#include "core/types.h"
#include "core/work.h"

namespace fm::kernels {

// Of 2 half_dim elements: i with i + half_dim (Hugging Face's layout), or 2 i with 2 i + 1.
enum class RopePairs : std::uint8_t { kHalves, kNeighbours };

// cos and sin are [positions, inv_freq.size()]. As transformers does: the angle is rounded to
// fp32 (inv_freq x position), then its cosine and sine are taken; here in fp64, rounded once.
void rope_table(const core::Work& work, std::span<const float> inv_freq, std::int64_t positions,
                float* cos, float* sin);

struct RopeTable {
  const float* cos = nullptr;  // [>= T, half_dim]
  const float* sin = nullptr;
  std::int64_t half_dim = 0;
  std::int64_t head_dim = 0;  // 2 half_dim or more
  RopePairs pairs = RopePairs::kHalves;
  // [B, T]: for each token where in its row its document begins, which is position 0. Null: where
  // the row begins.
  const std::int32_t* starts = nullptr;

  // Of rows that begin at this position.
  RopeTable from(std::int64_t position) const {
    return {cos + position * half_dim, sin + position * half_dim, half_dim, head_dim, pairs};
  }
};

// In place over x [B, T, heads, head_dim].
template <class T>
void rope(const core::Work& work, const RopeTable& table, core::BatchShape shape,
          std::int64_t heads, T* x);
// The transpose of `rope` (by the negative angle): what backward needs.
template <class T>
void rope_inverse(const core::Work& work, const RopeTable& table, core::BatchShape shape,
                  std::int64_t heads, T* x);

}  // namespace fm::kernels
