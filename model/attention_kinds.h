// The implementations behind model/attention.h.
#pragma once

#include "model/attention.h"

namespace fm::model {

template <class T>
AttentionScratch own_attention_scratch(const AttentionShape& shape);
template <class T>
void own_attention_forward(const AttentionShape& shape, const AttentionForward<T>& at,
                           core::Arena& scratch);
template <class T>
void own_attention_backward(const AttentionShape& shape, const AttentionBackward<T>& at,
                            core::Arena& scratch);

// What the library around model/attention_torch.cc gives, in fp32 only. Both allocate what they
// need.
struct TorchAttention {
  void (*forward)(const AttentionShape& shape, const AttentionForward<float>& at,
                  int threads) = nullptr;
  void (*backward)(const AttentionShape& shape, const AttentionBackward<float>& at,
                   int threads) = nullptr;
  std::string (*library)() = nullptr;
};
// Loads it at the first call.
const TorchAttention& torch_attention();

}  // namespace fm::model
