// Attention of new tokens over the keys and values in a cache, including their own.
#pragma once

#include "core/work.h"
#include "model/unit.h"

namespace fm::model {

struct CachedShape {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // divides heads
  std::int64_t head_dim = 0;
  std::int64_t window = 0;  // keys that a query attends to, its own last; 0: all up to its own
};

// q_THd, out_THd: [T, heads, head_dim], of the sequence's new tokens. Takes cached_scratch() from
// the arena.
template <class T>  // element: float, core::Bf16 or core::F16
void attention_cached(const CachedShape& shape, const CachedSequence& sequence, const T* q_THd,
                      T* out_THd, core::Work& work);

// For sequences of at most `positions` positions, and a Work of this number of threads.
core::Bytes cached_scratch(const CachedShape& shape, std::int64_t positions, int threads);

}  // namespace fm::model
