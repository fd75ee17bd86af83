// The implementations behind model/attention.h.
#pragma once

#include "model/attention.h"

namespace fm::model {

AttentionScratch own_attention_scratch(const AttentionShape& shape);
void own_attention_forward(const AttentionShape& shape, const AttentionForward& at,
                           core::Arena& scratch);
void own_attention_backward(const AttentionShape& shape, const AttentionBackward& at,
                            core::Arena& scratch);

// Allocates what it needs.
void torch_attention_forward(const AttentionShape& shape, const AttentionForward& at);
void torch_attention_backward(const AttentionShape& shape, const AttentionBackward& at);
std::string torch_attention_library();

}  // namespace fm::model
