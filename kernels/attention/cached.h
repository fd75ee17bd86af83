// Attention of one new token over the keys and values that a cache holds: softmax(q k^T scale) v of
// the query heads that share a key/value head; scale and softcap as in AttentionShape. Sums are
// fp32 in a fixed order, with the same bits in every instruction set. T is float, core::Bf16 or
// core::F16.
#pragma once

#include <cstdint>

namespace fm::kernels {

struct CachedKeys {
  std::int64_t keys = 0;      // that the query sees, 1 or more
  std::int64_t heads = 0;     // query heads of the group, side by side
  std::int64_t head_dim = 0;  // d
  std::int64_t stride = 0;    // elements from one token's key, or value, to the next one's
  float scale = 0.0F;
  float softcap = 0.0F;

  // Elements of fp32.
  constexpr std::int64_t scratch() const { return heads * (keys + 2 * head_dim) + head_dim; }
};

template <class T>
struct CachedRow {
  const T* q = nullptr;  // [heads, d]
  const T* k = nullptr;  // [keys, d], of the first key that the query sees
  const T* v = nullptr;
  T* out = nullptr;  // [heads, d]
};

// `scratch`: shape.scratch() elements.
template <class T>
void attend_cached(const CachedKeys& shape, const CachedRow<T>& at, float* scratch);

}  // namespace fm::kernels
