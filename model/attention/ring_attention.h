// Ring Attention (arXiv 2310.01889) of rows whose tokens are split zig-zag over the ranks of a ring
// (core/sequence_part.h). Keys and values rotate around the ring while each rank computes with the
// ones that it has; partial results are merged by their logsumexp, in fp32. In backward the
// gradients of keys and values rotate in fp32, one step after them. Windows and documents mask the
// same pairs as in a whole row; a step in which all pairs are masked is not computed.
#pragma once

#include "kernels/attention/attention.h"
#include "model/unit.h"

namespace fm::model {

using kernels::AttentionBackward;
using kernels::AttentionForward;
using kernels::AttentionScratch;
using kernels::AttentionShape;

// Like attention_forward and attention_backward for the rank's tokens, one chunk after the other:
// shape.batch.split.ring ranks, shape.starts_BT of whole rows. logsumexp is
// [B, 2, heads, T / 2]. Collective over the ring.
template <class T>  // element: float, core::Bf16 or core::F16
void ring_forward(const AttentionShape& shape, const AttentionForward<T>& arrays,
                  const RowPeers& peers, core::Work& work);
template <class T>
void ring_backward(const AttentionShape& shape, const AttentionBackward<T>& arrays,
                   const RowPeers& peers, core::Work& work);

template <class T>
AttentionScratch ring_scratch(const AttentionShape& shape, int threads);

}  // namespace fm::model
