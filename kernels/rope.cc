#include "kernels/rope.h"

#include <cmath>

namespace fm::kernels::FM_SIMD {
namespace {

enum class Direction : std::uint8_t { kForward, kInverse };

template <Direction kDirection>
void rotate_head(std::int64_t half, const float* cos, const float* sin, float* x) {
  for (std::int64_t i = 0; i < half; ++i) {
    const float angle_sin = kDirection == Direction::kForward ? sin[i] : -sin[i];
    const float first = x[i];
    const float second = x[i + half];
    x[i] = first * cos[i] - second * angle_sin;
    x[i + half] = second * cos[i] + first * angle_sin;
  }
}

template <Direction kDirection>
void rotate(const RopeTable& table, core::BatchShape shape, std::int64_t heads, float* x) {
  const std::int64_t half = table.half_dim;
  for (std::int64_t token = 0; token < shape.tokens(); ++token) {
    const std::int64_t position = token % shape.seq_len;
    const float* cos = table.cos + position * half;
    const float* sin = table.sin + position * half;
    float* x_token = x + token * heads * 2 * half;
    for (std::int64_t head = 0; head < heads; ++head) {
      rotate_head<kDirection>(half, cos, sin, x_token + head * 2 * half);
    }
  }
}

}  // namespace

void rope_table(std::span<const float> inv_freq, std::int64_t positions, float* cos, float* sin) {
  for (std::int64_t position = 0; position < positions; ++position) {
    for (const float frequency : inv_freq) {
      const float angle = frequency * static_cast<float>(position);
      *cos++ = static_cast<float>(std::cos(static_cast<double>(angle)));
      *sin++ = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  }
}

void rope(const RopeTable& table, core::BatchShape shape, std::int64_t heads, float* x) {
  rotate<Direction::kForward>(table, shape, heads, x);
}

void rope_inverse(const RopeTable& table, core::BatchShape shape, std::int64_t heads, float* x) {
  rotate<Direction::kInverse>(table, shape, heads, x);
}

}  // namespace fm::kernels::FM_SIMD
