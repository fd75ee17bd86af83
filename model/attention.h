// Causal grouped-query attention, forward and backward, without materialised scores
// (FlashAttention-2, arXiv 2307.08691). Query head h reads key/value head h / (heads / kv_heads).
// Any number of threads may call at once; each uses kernels::kernel_threads() of its own.
#pragma once

#include <string>

#include "core/arena.h"
#include "core/types.h"
#include "model/attention_kind.h"

namespace fm::model {

struct AttentionShape {
  core::BatchShape batch;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // divides heads
  std::int64_t head_dim = 0;
  AttentionKind kind = AttentionKind::kOwn;
};

// q, out [B, T, heads, head_dim]; k, v [B, T, kv_heads, head_dim]; logsumexp [B * T * heads] in an
// order that only attention_backward of the same kind knows. Scores are scaled by
// 1 / sqrt(head_dim).
struct AttentionForward {
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  float* out = nullptr;
  float* logsumexp = nullptr;
};
void attention_forward(const AttentionShape& shape, const AttentionForward& at,
                       core::Arena& scratch);

// Gradients have the shapes of what they belong to and are assigned.
struct AttentionBackward {
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  const float* out = nullptr;
  const float* logsumexp = nullptr;
  const float* dout = nullptr;
  float* dq = nullptr;
  float* dk = nullptr;
  float* dv = nullptr;
};
void attention_backward(const AttentionShape& shape, const AttentionBackward& at,
                        core::Arena& scratch);

// Elements of scratch that a call takes, with the calling thread's kernels::kernel_threads(): per
// computing thread the keys and values of one head for forward, a constant for backward.
struct AttentionScratch {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
};
AttentionScratch attention_scratch(const AttentionShape& shape);

// "own", "own (AMX)", or library, version and instruction set, e.g. "LibTorch 2.11.0 (AVX2)".
std::string attention_library(AttentionKind kind);

}  // namespace fm::model
