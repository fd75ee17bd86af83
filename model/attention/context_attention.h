// Attention of rows whose tokens are split over ranks (core/sequence_part.h): ranks exchange tokens
// for heads (model/attention/head_exchange.h), keys and values rotate around a ring
// (model/attention/ring_attention.h), or both; with one rank, kernels/attention/attention.h.
#pragma once

#include "kernels/attention/attention.h"
#include "model/unit.h"

namespace fm::model {

using kernels::AttentionBackward;
using kernels::AttentionScratch;
using kernels::AttentionShape;

// Elements of the arrays that forward saves for backward: q, each of k and v, logsumexp.
struct AttentionKept {
  std::int64_t q = 0;
  std::int64_t k = 0;
  std::int64_t logsumexp = 0;
};
// `shape` is that of the units: shape.batch.split says how ranks share its rows.
AttentionKept attention_kept(const AttentionShape& shape);

template <class T>
AttentionScratch context_scratch(const AttentionShape& shape, int threads);

// The bytes that a rank sends in a call, padding included.
struct AttentionSent {
  core::Bytes forward, backward;
};
template <class T>
AttentionSent attention_sent(const AttentionShape& shape);

// Like AttentionForward for the rank's tokens and all heads, with shape.starts_BT of whole rows. q,
// k and v are overwritten with the values that context_backward reads, and have room for
// attention_kept().
template <class T>  // element: float, core::Bf16 or core::F16
struct ContextForward {
  T* q = nullptr;
  T* k = nullptr;
  T* v = nullptr;
  T* out = nullptr;
  float* logsumexp = nullptr;
};
template <class T>
void context_forward(const AttentionShape& shape, const ContextForward<T>& arrays,
                     const RowPeers& peers, core::Work& work);

// q, k, v and logsumexp as context_forward wrote them; the other arrays have the rank's tokens.
template <class T>
void context_backward(const AttentionShape& shape, const AttentionBackward<T>& arrays,
                      const RowPeers& peers, core::Work& work);

}  // namespace fm::model
