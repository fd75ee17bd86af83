#include "kernels/attention/cached.h"

#include <algorithm>
#include <cmath>

#include "core/element.h"
#include "kernels/float_math.h"
#include "kernels/narrow_rows.h"
#include "kernels/rows.h"

namespace fm::kernels::FM_SIMD {
namespace {

// The row in fp32: itself, or its numbers in `memory`.
template <class T>
[[gnu::always_inline]] inline const float* widened(std::int64_t count, const T* row,
                                                   float* memory) {
  convert_row(count, row, memory);
  return memory;
}
[[gnu::always_inline]] inline const float* widened(std::int64_t, const float* row, float*) {
  return row;
}

// Scores become probabilities.
void softmax(std::int64_t count, float* scores) {
  float largest = scores[0];
  for (std::int64_t i = 1; i < count; ++i) largest = std::max(largest, scores[i]);
  for (std::int64_t i = 0; i < count; ++i) scores[i] = exp_float(scores[i] - largest);
  const float sum = lane_sum<float>(count, [&](std::int64_t i) { return scores[i]; });
  for (std::int64_t i = 0; i < count; ++i) scores[i] /= sum;
}

void cap_scores(std::int64_t count, float softcap, float* scores) {
  const float inner = 1.0F / softcap;
  for (std::int64_t i = 0; i < count; ++i) scores[i] = softcap * tanh_float(scores[i] * inner);
}

}  // namespace

template <class T>
void attend_cached(const CachedKeys& shape, const CachedRow<T>& at, float* scratch) {
  const std::int64_t d = shape.head_dim;
  float* const scores = scratch;  // [heads, keys]
  float* const sums = scores + shape.heads * shape.keys;
  float* const wide_q = sums + shape.heads * d;
  float* const wide_row = wide_q + shape.heads * d;
  const float* const q = widened(shape.heads * d, at.q, wide_q);
  const float scale = shape.scale > 0.0F ? shape.scale : 1.0F / std::sqrt(static_cast<float>(d));
  for (std::int64_t key = 0; key < shape.keys; ++key) {
    const float* const k = widened(d, at.k + key * shape.stride, wide_row);
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const float* const q_d = q + head * d;
      const float dot = lane_sum<float>(d, [&](std::int64_t i) { return q_d[i] * k[i]; });
      scores[head * shape.keys + key] = dot * scale;
    }
  }
  if (shape.softcap > 0.0F) cap_scores(shape.heads * shape.keys, shape.softcap, scores);
  for (std::int64_t head = 0; head < shape.heads; ++head) {
    softmax(shape.keys, scores + head * shape.keys);
  }
  std::fill_n(sums, shape.heads * d, 0.0F);
  for (std::int64_t key = 0; key < shape.keys; ++key) {
    const float* const v = widened(d, at.v + key * shape.stride, wide_row);
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const float share = scores[head * shape.keys + key];
      float* const sums_d = sums + head * d;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < d; ++i) sums_d[i] += share * v[i];
    }
  }
  convert_row(shape.heads * d, sums, at.out);
}

template decltype(kernels::attend_cached<float>) attend_cached;
template decltype(kernels::attend_cached<core::Bf16>) attend_cached;
template decltype(kernels::attend_cached<core::F16>) attend_cached;

}  // namespace fm::kernels::FM_SIMD
