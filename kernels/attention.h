// Causal attention of one key/value head and the query heads that share it, in one row of the
// batch, block by block (FlashAttention-2, arXiv 2307.08691). Scores are scaled by 1 / sqrt(d).
// The same bits in every instruction set, whatever else runs.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fm::kernels {

struct HeadGroup {
  std::int64_t seq_len = 0;   // T
  std::int64_t heads = 0;     // query heads of the group, side by side
  std::int64_t head_dim = 0;  // d
  std::int64_t q_stride = 0;  // elements from one token to the next in q, out, dout, dq
  std::int64_t k_stride = 0;  // the same in k, v, dk, dv
};

// Every pointer is at the group's first head in the row's first token; logsumexp is [heads, T], the
// logarithm of the sum of e^(score scale), divided by the scale: a query that sees one key stores
// its score, bit for bit.
struct GroupForward {
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  float* out = nullptr;
  float* logsumexp = nullptr;
};
// `scratch`: attention_forward_scratch(group) elements on 64 bytes.
void attention_forward(const HeadGroup& group, const GroupForward& at, float* scratch);

struct GroupBackward {
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  const float* out = nullptr;
  const float* logsumexp = nullptr;
  const float* dout = nullptr;
  float* dq = nullptr;  // assigned, like dk and dv, which are summed over the group's heads
  float* dk = nullptr;
  float* dv = nullptr;
};
// `scratch`: attention_backward_scratch(group) elements on 64 bytes.
void attention_backward(const HeadGroup& group, const GroupBackward& at, float* scratch);

// Queries and keys that are computed at a time.
inline constexpr std::int64_t kForwardQueries = 64;
inline constexpr std::int64_t kForwardKeys = 128;
inline constexpr std::int64_t kBackwardQueries = 64;
inline constexpr std::int64_t kBackwardKeys = 128;

constexpr std::int64_t up_to_16(std::int64_t count) { return (count + 15) / 16 * 16; }

// Grows with T (keys and values of the whole row lie packed); never with T x T.
constexpr std::int64_t attention_forward_scratch(const HeadGroup& group) {
  const std::int64_t dim = up_to_16(group.head_dim);
  const std::int64_t keys = std::min(kForwardKeys, up_to_16(group.seq_len));
  const std::int64_t queries = std::min(kForwardQueries, up_to_16(group.seq_len));
  const std::int64_t packed = (group.seq_len + keys - 1) / keys * keys;
  return 2 * packed * dim + queries * (2 * dim + keys + 16 + 1);
}

// Grows with T by one number per query.
constexpr std::int64_t attention_backward_scratch(const HeadGroup& group) {
  const std::int64_t dim = up_to_16(group.head_dim);
  const std::int64_t keys = std::min(kBackwardKeys, up_to_16(group.seq_len));
  const std::int64_t queries = std::min(kBackwardQueries, up_to_16(group.seq_len));
  return 5 * keys * dim + queries * (3 * dim + 2 * keys + 2) +
         group.heads * up_to_16(group.seq_len);
}

}  // namespace fm::kernels
