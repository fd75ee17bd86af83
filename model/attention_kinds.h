// The implementations behind model/attention.h.
#pragma once

#include "model/attention.h"

namespace fm::model {

AttentionScratch own_attention_scratch(const AttentionShape& shape);
void own_attention_forward(const AttentionShape& shape, const AttentionForward& at,
                           core::Arena& scratch);
void own_attention_backward(const AttentionShape& shape, const AttentionBackward& at,
                            core::Arena& scratch);

// What the library around model/attention_torch.cc gives. Both allocate what they need.
struct TorchAttention {
  void (*forward)(const AttentionShape& shape, const AttentionForward& at, int threads) = nullptr;
  void (*backward)(const AttentionShape& shape, const AttentionBackward& at, int threads) = nullptr;
  std::string (*library)() = nullptr;
};
// Loads it at the first call.
const TorchAttention& torch_attention();

}  // namespace fm::model
