// Causal grouped-query attention, forward and backward, without materialised scores
// (FlashAttention-2, arXiv 2307.08691). Query head h reads key/value head h / (heads / kv_heads).
// Any number of threads may call at once, each with a Work of its own.
#pragma once

#include <string>

#include "core/types.h"
#include "core/work.h"
#include "kernels/dropout.h"

namespace fm::kernels {

// The part of a longer row that the arrays hold: queries from `first_query` on, keys from
// `first_key` on. `keys`: the number of keys where they are of an earlier run of tokens, which
// precede all queries; 0: the keys are of the same tokens as the queries.
struct RunsOfRow {
  std::int64_t row = 0;  // T; 0: the arrays hold the whole row
  std::int64_t first_query = 0;
  std::int64_t first_key = 0;
  std::int64_t keys = 0;
};

struct AttentionShape {
  core::BatchShape batch;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // divides heads
  std::int64_t head_dim = 0;
  std::int64_t window = 0;  // keys that a query attends to, its own last; 0: all up to its own
  const std::int32_t* starts_BT = nullptr;  // of documents (begin within the row, ascending)
  Dropout dropout = {};                     // of probabilities
  std::int64_t first_sample = 0;            // within the step; keys the dropout
  // Where these are only some heads of the model: the first of them, and the number of all.
  std::int64_t first_head = 0;
  std::int64_t all_heads = 0;  // 0: these are all heads
  RunsOfRow runs = {};
  float scale = 0.0F;    // of a score before the softmax, above 0; 0: 1 / sqrt(head_dim)
  float softcap = 0.0F;  // 0: none; else scaled scores s become softcap tanh(s / softcap) (Gemma 2)
};

// q, out [B, T, heads, head_dim]; k, v [B, T, kv_heads, head_dim], or [B, runs.keys, kv_heads,
// head_dim]; logsumexp [B, heads, T], of scores before their scaling
// (kernels/attention/head_group.h).
template <class T>  // element: float, core::Bf16 or core::F16
struct AttentionForward {
  const T* q = nullptr;
  const T* k = nullptr;
  const T* v = nullptr;
  T* out = nullptr;
  float* logsumexp = nullptr;
};
template <class T>
void attention_forward(core::Work& work, const AttentionShape& shape,
                       const AttentionForward<T>& arrays);

// Gradients have the shapes of their arrays and are assigned.
template <class T>
struct AttentionBackward {
  const T* q = nullptr;
  const T* k = nullptr;
  const T* v = nullptr;
  const T* out = nullptr;
  const float* logsumexp = nullptr;
  const T* dout = nullptr;
  T* dq = nullptr;
  T* dk = nullptr;
  T* dv = nullptr;
};
template <class T>
void attention_backward(core::Work& work, const AttentionShape& shape,
                        const AttentionBackward<T>& arrays);

// The scratch of a call whose Work has this number of threads: per computing thread the keys and
// values of one head for forward, a constant for backward.
struct AttentionScratch {
  core::Bytes forward;
  core::Bytes backward;
};
template <class T>
AttentionScratch attention_scratch(const AttentionShape& shape, int threads);

// "own" or "own (AMX)".
std::string attention_library();

}  // namespace fm::kernels
