// Internal to attention: its blocks, its scratch and its functions for AMX.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention/head_group.h"

namespace fm::kernels {

// Blocks and work space of the attention that every instruction set has
// (kernels/attention/forward.cc and backward.cc).

// Queries and keys that are computed at a time.
inline constexpr std::int64_t kForwardQueries = 64;
inline constexpr std::int64_t kForwardKeys = 128;
inline constexpr std::int64_t kBackwardQueries = 128;
inline constexpr std::int64_t kBackwardKeys = 128;

// The same of a query of a padded block: beyond the row, that of the last.
[[gnu::always_inline]] constexpr std::int64_t padded_first_key_of(const HeadGroup& group,
                                                                  std::int64_t query) {
  return first_key_of(group, std::min(query, group.seq_len - 1));
}

// Keys that a query sees end here, counted from `first_key`; where they are its own tokens', the
// query stands `ahead` keys behind it.
[[gnu::always_inline]] constexpr std::int64_t seen_end(const HeadGroup& group,
                                                       std::int64_t first_key, std::int64_t ahead) {
  return group.keys > 0 ? group.keys - first_key : ahead + 1;
}

// Queries from `key` on up to the one that is returned see keys before `key_end`, later ones none.
[[gnu::always_inline]] constexpr std::int64_t seeing_end(const HeadGroup& group, std::int64_t key,
                                                         std::int64_t key_end) {
  std::int64_t begin = group.keys > 0 ? 0 : key;
  std::int64_t end = group.seq_len;
  while (begin < end) {
    const std::int64_t middle = begin + (end - begin) / 2;
    if (first_key_of(group, middle) < key_end) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return end;
}

constexpr std::int64_t up_to_16(std::int64_t count) { return (count + 15) / 16 * 16; }

// Grows with T (keys and values of the whole row lie packed); never with T x T.
constexpr std::int64_t variant_forward_scratch(const HeadGroup& group) {
  const std::int64_t dim = up_to_16(group.head_dim);
  const std::int64_t keys = std::min(kForwardKeys, up_to_16(key_count_of(group)));
  const std::int64_t queries = std::min(kForwardQueries, up_to_16(group.seq_len));
  const std::int64_t packed = (key_count_of(group) + keys - 1) / keys * keys;
  return 2 * packed * dim + queries * (2 * dim + keys + 16 + 1);
}

// Grows with T by one number per query.
constexpr std::int64_t variant_backward_scratch(const HeadGroup& group) {
  const std::int64_t dim = up_to_16(group.head_dim);
  const std::int64_t keys = std::min(kBackwardKeys, up_to_16(key_count_of(group)));
  const std::int64_t queries = std::min(kBackwardQueries, up_to_16(group.seq_len));
  return 5 * keys * dim + queries * (3 * dim + 2 * keys + 2) +
         group.heads * up_to_16(group.seq_len);
}

// Attention on Intel's AMX tiles (amx_forward.cc, amx_backward.cc) where amx_chosen(). Products of
// fp32 numbers as kernels/gemm/libraries.h describes them: every operand is split into three bf16
// parts once, where it is loaded or computed. An element's bits depend on its group alone, not on
// threads or the batch.
// Forward and backward are 1.3 to 1.8 times as fast as the multiply-adds of AVX-512 (256 and 4,096
// tokens, head dim 64).
void amx_attention_forward(const HeadGroup& group, const GroupForward& at, float* scratch);
void amx_attention_backward(const HeadGroup& group, const GroupBackward& at, float* scratch);

// Elements of scratch.
std::int64_t amx_attention_forward_scratch(const HeadGroup& group);
std::int64_t amx_attention_backward_scratch(const HeadGroup& group);

}  // namespace fm::kernels
