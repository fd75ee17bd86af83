// What multiplies matrices, follows from CPUID alone.
#pragma once

#include <cstdint>
#include <string_view>

namespace fm::kernels {

enum class GemmKind : std::uint8_t {
  kOneDnn,
  kPacked,  // kernels/packed_product.h
  kMixed,   // kPacked for fp32 x W^T, which oneDNN turns slowly; kOneDnn for the rest
  kAmx,     // kernels/amx.h
};

// AMX where the CPU has it; our packed panels where AVX2 is the widest that the kernels use, and
// for A B^T in fp32 where AVX-512 is; else oneDNN, which comes near the peak of AVX-512. The
// environment variable FME_GEMM overrides it with amx, packed, mixed or onednn. Decided at the
// first call. UserError (10) when FME_GEMM names what does not run here.
GemmKind chosen_gemm();
// The rule behind it: `wanted` is "" for the fastest.
GemmKind choose_gemm(std::string_view wanted);

}  // namespace fm::kernels
