// Attention of new tokens over the keys and values in a cache, including their own.
#pragma once

#include <cstdint>

#include "core/types.h"
#include "core/work.h"

namespace fm::kernels {

struct CachedShape {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // divides heads
  std::int64_t head_dim = 0;
  std::int64_t window = 0;  // keys that a query attends to, its own last; 0: all up to its own
  float scale = 0.0F;       // these two as in AttentionShape
  float softcap = 0.0F;
};

// The new tokens of a sequence whose earlier tokens are in a cache; their rows follow those of the
// previous sequence. `cache`: of one unit, keys [capacity, kv_heads * head_dim] and then
// values; those of the new tokens are in it.
struct CachedSequence {
  std::int64_t count = 0;     // number of new tokens, 1 or more
  std::int64_t position = 0;  // of the first new token: the number of tokens in the cache
  std::int64_t capacity = 0;
  void* cache = nullptr;
};

// q_THd, out_THd: [T, heads, head_dim], of the sequence's new tokens. Takes cached_scratch() from
// the arena.
template <class T>  // element: float, core::Bf16 or core::F16
void attention_cached(core::Work& work, const CachedShape& shape, const CachedSequence& sequence,
                      const T* q_THd, T* out_THd);

// For sequences of at most `positions` positions, and a Work of this number of threads.
core::Bytes cached_scratch(const CachedShape& shape, std::int64_t positions, int threads);

}  // namespace fm::kernels
