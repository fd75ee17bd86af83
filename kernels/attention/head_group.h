// Causal attention of one key/value head and the query heads that share it, in one row of the
// batch, block by block (FlashAttention-2, arXiv 2307.08691). Scores are scaled, by 1 / sqrt(d) by
// default. Where the CPU has AMX its tiles compute (kernels/attention/paths.h), else chains of
// fused multiply-adds with the same bits in every instruction set; FME_GEMM=onednn chooses these,
// and so do dropout and soft-capping. Either way the bits depend on the group alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/dropout.h"

namespace fm::kernels {

struct HeadGroup {
  std::int64_t seq_len = 0;   // T
  std::int64_t heads = 0;     // query heads of the group, side by side
  std::int64_t head_dim = 0;  // d
  std::int64_t q_stride = 0;  // elements from one token to the next in q, out, dout, dq
  std::int64_t k_stride = 0;  // the same in k, v, dk, dv
  std::int64_t window = 0;    // keys that a query sees, itself the last; 0: all up to itself
  // [T], where in the row the document of each query begins, ascending: its keys are the first that
  // a query sees. Null: all of the row is one document.
  const std::int32_t* starts = nullptr;
  Dropout dropout = {};                 // of probabilities
  std::uint64_t first_probability = 0;  // its number: of the first head, query and key of the row
  // Where the arrays hold runs of a longer row (ring attention, arXiv 2310.01889): its T, and where
  // queries and keys begin in it. `row` 0: they are the row.
  std::int64_t row = 0;
  std::int64_t first_query = 0;
  std::int64_t first_key = 0;
  std::int64_t keys = 0;  // of an earlier run than the queries'; 0: those of the queries' tokens
  float scale = 0.0F;     // these two as in AttentionShape (kernels/attention/attention.h)
  float softcap = 0.0F;
};

// What a score is multiplied by before the softmax; `unit`: times this.
[[gnu::always_inline]] inline float score_scale_of(const HeadGroup& group, float unit = 1.0F) {
  if (group.scale > 0.0F) return unit * group.scale;
  return unit / std::sqrt(static_cast<float>(group.head_dim));
}

// Soft-capping in the unit of scores before their scaling, so that all that follows scales, shifts
// and sums capped scores like others: a score s becomes outer tanh(s inner).
struct ScoreCap {
  float inner = 0.0F;  // scale / softcap
  float outer = 0.0F;  // softcap / scale; 0: scores are not capped
};
[[gnu::always_inline]] inline ScoreCap score_cap_of(const HeadGroup& group) {
  if (group.softcap <= 0.0F) return {};
  const float scale = score_scale_of(group);
  return {scale / group.softcap, group.softcap / scale};
}

constexpr std::int64_t key_count_of(const HeadGroup& group) {
  return group.keys > 0 ? group.keys : group.seq_len;
}

// The number of a query's first probability in the row; those of its keys follow.
[[gnu::always_inline]] constexpr std::uint64_t probability_of(const HeadGroup& group,
                                                              std::int64_t head,
                                                              std::int64_t query) {
  const std::int64_t row = group.row > 0 ? group.row : group.seq_len;
  const std::int64_t width = (row + kDropoutGroup - 1) / kDropoutGroup * kDropoutGroup;
  return group.first_probability +
         static_cast<std::uint64_t>((head * row + group.first_query + query) * width);
}

// The first key that a query sees, counted from the first key; beyond the last: it sees none. It
// never falls from a query to the next.
[[gnu::always_inline]] constexpr std::int64_t first_key_of(const HeadGroup& group,
                                                           std::int64_t query) {
  std::int64_t first = group.starts == nullptr ? 0 : group.starts[query];
  if (group.window > 0) first = std::max(group.first_query + query + 1 - group.window, first);
  return std::max(first - group.first_key, std::int64_t{0});
}

// Every pointer is at the group's first head in the row's first token; logsumexp is [heads, T], the
// logarithm of the sum of e^(score scale), divided by the scale, of capped scores where there is a
// softcap: a query that sees one key stores its score, bit for bit; one that sees none -infinity,
// and zeros in out.
struct GroupForward {
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  float* out = nullptr;
  float* logsumexp = nullptr;
};
// `scratch`: group_attention_forward_scratch(group) elements on 64 bytes.
void group_attention_forward(const HeadGroup& group, const GroupForward& at, float* scratch);

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
// `scratch`: group_attention_backward_scratch(group) elements on 64 bytes.
void group_attention_backward(const HeadGroup& group, const GroupBackward& at, float* scratch);

// Of what computes here. Forward grows with T (keys and values of the whole row lie packed),
// backward by one number per query; neither with T x T.
std::int64_t group_attention_forward_scratch(const HeadGroup& group);
std::int64_t group_attention_backward_scratch(const HeadGroup& group);

}  // namespace fm::kernels
