// Attention on Intel's AMX tiles (attention_amx_forward.cc, attention_amx_backward.cc), behind
// kernels/attention/attention.h where amx_chosen(). Products of fp32 numbers as
// kernels/gemm/libraries.h describes them: every operand is split into three bf16 parts once, where
// it is loaded or computed. An element's bits depend on its group alone, not on threads or the
// batch.
#pragma once

#include "kernels/attention/attention.h"

namespace fm::kernels {

void amx_attention_forward(const HeadGroup& group, const GroupForward& at, float* scratch);
void amx_attention_backward(const HeadGroup& group, const GroupBackward& at, float* scratch);

// Elements of scratch.
std::int64_t amx_attention_forward_scratch(const HeadGroup& group);
std::int64_t amx_attention_backward_scratch(const HeadGroup& group);

}  // namespace fm::kernels
