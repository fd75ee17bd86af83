#include "kernels/pointwise/rope.h"

#include <cmath>

#include "core/element.h"
#include "kernels/without_work.h"

namespace fm::kernels::FM_SIMD {

using core::Bf16;
using core::F16;
using core::to_element;
using core::to_float;

namespace {

enum class RopeDirection : std::uint8_t { kForward, kInverse };

template <RopeDirection kDirection, RopePairs kPairs, class T>
void rotate_head(std::int64_t half, const float* cos, const float* sin, T* x) {
  constexpr bool kHalves = kPairs == RopePairs::kHalves;
  for (std::int64_t i = 0; i < half; ++i) {
    const float angle_sin = kDirection == RopeDirection::kForward ? sin[i] : -sin[i];
    T& at_first = x[kHalves ? i : 2 * i];
    T& at_second = x[kHalves ? i + half : 2 * i + 1];
    const float first = to_float(at_first);
    const float second = to_float(at_second);
    at_first = to_element<T>(first * cos[i] - second * angle_sin);
    at_second = to_element<T>(second * cos[i] + first * angle_sin);
  }
}

template <RopeDirection kDirection, RopePairs kPairs, class T>
void rotate_all(const RopeTable& table, core::BatchShape shape, std::int64_t heads, T* x) {
  const std::int64_t half = table.half_dim;
  for (std::int64_t token = 0; token < shape.tokens(); ++token) {
    const std::int64_t start = table.starts == nullptr ? 0 : table.starts[token];
    const std::int64_t position = token % shape.seq_len - start;
    const float* cos = table.cos + position * half;
    const float* sin = table.sin + position * half;
    T* x_token = x + token * heads * table.head_dim;
    for (std::int64_t head = 0; head < heads; ++head) {
      rotate_head<kDirection, kPairs>(half, cos, sin, x_token + head * table.head_dim);
    }
  }
}

template <RopeDirection kDirection, class T>
void rotate(const RopeTable& table, core::BatchShape shape, std::int64_t heads, T* x) {
  switch (table.pairs) {
    case RopePairs::kHalves:
      rotate_all<kDirection, RopePairs::kHalves>(table, shape, heads, x);
      break;
    case RopePairs::kNeighbours:
      rotate_all<kDirection, RopePairs::kNeighbours>(table, shape, heads, x);
      break;
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

template <class T>
void rope(const RopeTable& table, core::BatchShape shape, std::int64_t heads, T* x) {
  rotate<RopeDirection::kForward>(table, shape, heads, x);
}

template <class T>
void rope_inverse(const RopeTable& table, core::BatchShape shape, std::int64_t heads, T* x) {
  rotate<RopeDirection::kInverse>(table, shape, heads, x);
}

template WithoutWork<decltype(kernels::rope<float>)> rope;
template WithoutWork<decltype(kernels::rope<Bf16>)> rope;
template WithoutWork<decltype(kernels::rope<F16>)> rope;
template WithoutWork<decltype(kernels::rope_inverse<float>)> rope_inverse;
template WithoutWork<decltype(kernels::rope_inverse<Bf16>)> rope_inverse;
template WithoutWork<decltype(kernels::rope_inverse<F16>)> rope_inverse;

}  // namespace fm::kernels::FM_SIMD
