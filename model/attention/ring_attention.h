// Attention of rows whose tokens lie zig-zag on the ranks of a ring (core/sequence_part.h; Ring
// Attention, arXiv 2310.01889). Keys and values go round the ring while each rank computes with
// what it has; what its queries saw so far and what they see now are merged by their logarithms of
// sums, in fp32. In backward the gradients of keys and values go round in fp32, one step behind
// them. Windows and documents hide what they hide in a whole row; a step that sees nothing is not
// computed.
#pragma once

#include "comm/communicator.h"
#include "model/attention/attention.h"

namespace fm::model {

// As attention_forward and attention_backward of the rank's tokens, both chunks one behind the
// other: shape.batch.split.ring ranks, shape.starts_BT of whole rows. logsumexp is
// [B, 2, heads, T / 2]. Collective over the ring.
template <class T>  // element: float, core::Bf16 or core::F16
void ring_forward(const AttentionShape& shape, const AttentionForward<T>& at,
                  comm::Communicator& ring, core::Work& work);
template <class T>
void ring_backward(const AttentionShape& shape, const AttentionBackward<T>& at,
                   comm::Communicator& ring, core::Work& work);

template <class T>
AttentionScratch ring_scratch(const AttentionShape& shape, int threads);

}  // namespace fm::model
