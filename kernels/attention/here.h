// The public kernels of attention on this CPU.
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_cached.h"
#include "kernels/attention/partial_softmax.h"

namespace fm::kernels {

template <class T>
void attention_forward_here(core::Work& work, const AttentionShape& shape,
                            const AttentionForward<T>& arrays);
template <class T>
void attention_backward_here(core::Work& work, const AttentionShape& shape,
                             const AttentionBackward<T>& arrays);
template <class T>
void attention_cached_here(core::Work& work, const CachedShape& shape,
                           const CachedSequence& sequence, const T* q_THd, T* out_THd);

void merge_partial_softmax_here(const core::Work& work, const PartialShape& shape,
                                const PartialSoftmax& now, const PartialSoftmax& all);

}  // namespace fm::kernels
