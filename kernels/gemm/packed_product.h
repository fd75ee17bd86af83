// Matrix products by fused multiply-adds of vectors, both operands packed into panels.
#pragma once

#include "core/bf16.h"
#include "kernels/gemm/gemm.h"

namespace fm::kernels {

// Of the variant that was chosen (kernels/variants/); no event of the trace.
//
// C [m, n] = op(A) [m, k] op(B) [k, n] + beta C on the calling thread. Operands of bf16 become fp32
// while they are packed. Takes 1.4 MiB of the caller's stack and allocates nothing.
//
// An element is the sum of blocks of 512 terms, one block after the other, the old value of C the
// first; a block is one chain of fused multiply-adds in order of k that begins with zero. So its
// bits depend on k alone, and every instruction set gives the same (tests compare them). Without
// FMA the baseline computes it through libm, slowly.
template <class T>
void packed_product(const GemmShape& shape, const Operand<T>& a, const Operand<T>& b,
                    const Target<float>& c);

}  // namespace fm::kernels
