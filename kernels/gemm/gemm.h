// Matrix products of row-major matrices of fp32, bf16 or fp16, summed in fp32. What computes
// follows from the CPU (CPUID) and the shape, never from a timing: our AMX kernel where the CPU has
// AMX, our packed panels where AVX2 is its widest (and for fp32 A B^T and A^T B on AMD's CPUs with
// AVX-512), all where every side is 32 or more, oneDNN for the rest. FME_GEMM overrides the CPU's
// part.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/element.h"
#include "core/work.h"

namespace fm::kernels {

enum class Form : std::uint8_t { kAsIs, kTransposed };
enum class Beta : std::uint8_t { kZero, kOne };

struct GemmShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

template <class T>
struct Operand {
  const T* data = nullptr;
  std::int64_t stride = 0;  // elements between rows as stored (leading dimension)
  Form form = Form::kAsIs;  // kTransposed: stored as the transpose of what the product needs
};

template <class T>
struct Target {
  T* data = nullptr;
  std::int64_t stride = 0;
  Beta beta = Beta::kZero;    // kZero assigns (old values, NaN too, are ignored), kOne adds
  const T* addend = nullptr;  // what beta one adds, of the same shape and stride; null: `data`
};

// D [m, n] = op(A) [m, k] op(B) [k, n] + beta C on the threads of `work`, where D is the target's
// data, and C its addend or the same. Any thread may call; D overlaps none of the others.
// An element of a bf16 or fp16 C is read once and rounded once.
void gemm(const core::Work& work, const GemmShape& shape, const Operand<float>& a,
          const Operand<float>& b, const Target<float>& c);
void gemm(const core::Work& work, const GemmShape& shape, const Operand<core::Bf16>& a,
          const Operand<core::Bf16>& b, const Target<float>& c);
void gemm(const core::Work& work, const GemmShape& shape, const Operand<core::Bf16>& a,
          const Operand<core::Bf16>& b, const Target<core::Bf16>& c);
void gemm(const core::Work& work, const GemmShape& shape, const Operand<core::F16>& a,
          const Operand<core::F16>& b, const Target<float>& c);
void gemm(const core::Work& work, const GemmShape& shape, const Operand<core::F16>& a,
          const Operand<core::F16>& b, const Target<core::F16>& c);

// Library, version and instruction set of products of this type for the banner, e.g. "oneDNN 2.6.3
// (avx512_core)". UserError (10) when FME_GEMM names what does not run here.
std::string gemm_library(core::DType element);
// Whether products of this type take no longer than those of fp32: bf16 where the CPU has
// instructions for it (AMX, AVX512_BF16), and types that packed panels convert while packing.
bool gemm_is_fast(core::DType element);

// The library that multiplies matrices.
enum class GemmKind : std::uint8_t {
  kOneDnn,
  kPacked,  // kernels/gemm/libraries.h
  kMixed,   // kOneDnn for untransposed A B, and for bf16; kPacked for the rest of fp32
  kAmx,     // Intel's AMX tiles
};

// Chosen by CPUID alone: AMX where the CPU has it; our packed panels where AVX2 is the widest set
// that the kernels use, and for A B^T and A^T B in fp32 on AMD's AVX-512; else oneDNN, which comes
// near the peak of AVX-512. The environment variable FME_GEMM overrides it with amx, packed, mixed
// or onednn. Decided at the first call. UserError (10) when FME_GEMM names what does not run here.
GemmKind chosen_gemm();
// The rule of chosen_gemm(): `wanted` is the value of FME_GEMM, "" for the fastest.
GemmKind choose_gemm(std::string_view wanted);

// Whether chosen_gemm() is kAmx: products and attention then run on AMX tiles.
bool amx_chosen();

}  // namespace fm::kernels
