// Queries, keys and values that one product makes, and the same in arrays of their own.
#pragma once

#include <cstdint>

#include "core/types.h"
#include "core/work.h"
#include "kernels/pointwise/rope.h"

namespace fm::kernels {

// The heads of a token: in every group queries, then keys, then values.
struct HeadGroups {
  std::int64_t groups = 1;
  std::int64_t queries = 0;  // heads of a group
  std::int64_t keys = 0;     // and as many values
  std::int64_t head_dim = 0;

  constexpr std::int64_t heads() const { return groups * (queries + 2 * keys); }
};

template <class T>
struct SplitHeads {
  T* all = nullptr;  // [tokens, heads(), head_dim]
  T* q = nullptr;    // [tokens, groups * queries, head_dim]
  T* k = nullptr;    // [tokens, groups * keys, head_dim]
  T* v = nullptr;
};

// all -> q, k, v, with queries and keys rotated as `rope` does; a half_dim of 0 rotates nothing.
template <class T>
void split_heads(const core::Work& work, const RopeTable& table, core::BatchShape shape,
                 const HeadGroups& groups, const SplitHeads<T>& at);
// q, k, v -> all, with queries and keys rotated back (rope_inverse); they may be overwritten.
template <class T>
void join_heads(const core::Work& work, const RopeTable& table, core::BatchShape shape,
                const HeadGroups& groups, const SplitHeads<T>& at);

}  // namespace fm::kernels
