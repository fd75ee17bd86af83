// Internal to products: the functions that gemm.cc chooses among.
#pragma once

#include <string>

#include "core/element.h"
#include "kernels/gemm/gemm.h"
#include "kernels/pointwise/moves.h"

namespace fm::kernels {

// The target with its addend in place: this CPU adds to what is there.
template <class C>
Target<C> in_place(const core::Work& work, const GemmShape& shape, const Target<C>& c) {
  if (c.addend == nullptr) return c;
  if (c.stride == shape.n) {
    copy(work, shape.m * shape.n, c.addend, c.data);
  } else {
    copy_rows<C>(work, {shape.m, shape.n}, {c.addend, c.stride}, {c.data, c.stride});
  }
  return {c.data, c.stride, c.beta};
}

// op(X) from a row and a column on.
template <class T>
Operand<T> part_of(const Operand<T>& x, std::int64_t row, std::int64_t column) {
  const bool as_is = x.form == Form::kAsIs;
  return {x.data + (as_is ? row * x.stride + column : column * x.stride + row), x.stride, x.form};
}

// Any shape.
void onednn_gemm(const GemmShape& shape, const Operand<float>& a, const Operand<float>& b,
                 const Target<float>& c);
// Products of T as they are written for a target of fp32.
template <class T>
using Gemm = void(const GemmShape& shape, const Operand<T>& a, const Operand<T>& b,
                  const Target<float>& c);
// Any shape, on any CPU: blocks of the operands, bf16 or fp16, become fp32.
template <class T>
void converted_gemm(const GemmShape& shape, const Operand<T>& a, const Operand<T>& b,
                    const Target<float>& c);
// Any shape: blocks of C are made by `product` in fp32, then rounded.
template <class T>
void rounded_gemm(const GemmShape& shape, const Operand<T>& a, const Operand<T>& b,
                  const Target<T>& c, Gemm<T>* product);
// bf16 by oneDNN, any shape; only where it has that product and the CPU AVX512_BF16.
void onednn_gemm(const GemmShape& shape, const Operand<core::Bf16>& a, const Operand<core::Bf16>& b,
                 const Target<float>& c);
bool onednn_has_bf16();
// Any shape, by kernels/gemm/libraries.h on kernel_threads() threads, each with its part of C.
void packed_gemm(const GemmShape& shape, const Operand<float>& a, const Operand<float>& b,
                 const Target<float>& c);
void packed_gemm(const GemmShape& shape, const Operand<core::Bf16>& a, const Operand<core::Bf16>& b,
                 const Target<float>& c);
void packed_gemm(const GemmShape& shape, const Operand<core::F16>& a, const Operand<core::F16>& b,
                 const Target<float>& c);
// "oneDNN 2.6.3 (avx512_core_amx)"
std::string onednn_name();

// fp32 by Intel's AMX tiles. An operand's element is split into three bf16 parts,
// x = high + middle + low, exactly; of the nine products of parts the six large ones are added in
// fp32, blocks of 512 terms one after the other. What is left out is below 2^-24 |a b| a term, so
// the result is at least as close as that of a chain of fp32 additions (tests compare both).
// Differs from IEEE fp32 where a part leaves the range of bf16: an infinity gives NaN, so do
// numbers above 3.39e38; below 1e-33 the lower parts are zero.
// An element's bits depend on k alone, not on m, n or the number of threads. 2,600 to 3,000
// bf16 GFLOP/s of a core become 290 to 340 of fp32 where fused multiply-adds of AVX-512 reach 180.
void amx_gemm(const GemmShape& shape, const Operand<float>& a, const Operand<float>& b,
              const Target<float>& c);

// bf16 by the same tiles, strips and blocks, one part each: chains of fp32 sums in order of k, two
// terms at a time, blocks of 2,048 terms one after the other. An element's bits depend on k alone.
// 800 to 900 GFLOP/s per core, bound by packing and by what the tiles reach with numbers that are
// not zero (some 1,500).
void amx_gemm(const GemmShape& shape, const Operand<core::Bf16>& a, const Operand<core::Bf16>& b,
              const Target<float>& c);
void amx_gemm(const GemmShape& shape, const Operand<core::Bf16>& a, const Operand<core::Bf16>& b,
              const Target<core::Bf16>& c);

// Matrix products by fused multiply-adds of vectors, both operands packed into panels. In the steps
// of W1 and W2 they reach 1.0 to 2.1 times oneDNN's rate on a Zen 3 (AVX2); on a Zen 4 1.06 to 1.21
// times in A B^T and 0.98 to 1.12 times in A^T B.
//
// Of the variant that was chosen (kernels/variants/); no event of the trace.
//
// C [m, n] = op(A) [m, k] op(B) [k, n] + beta C on the calling thread. Narrow operands become fp32
// while they are packed. Takes 1.4 MiB of the caller's stack and allocates nothing.
//
// An element is the sum of blocks of 512 terms, one block after the other, the old value of C the
// first; a block is one chain of fused multiply-adds in order of k that begins with zero. So its
// bits depend on k alone, and every instruction set gives the same (tests compare them). Without
// FMA the baseline computes it through libm, slowly.
template <class T>
void packed_product(const GemmShape& shape, const Operand<T>& a, const Operand<T>& b,
                    const Target<float>& c);

// gemm() on this CPU.
template <class T, class C>
void gemm_here(const core::Work& work, const GemmShape& shape, const Operand<T>& a,
               const Operand<T>& b, const Target<C>& c);

}  // namespace fm::kernels
