// What multiplies matrices, follows from CPUID alone.
#pragma once

#include <cstdint>
#include <string_view>

namespace fm::kernels {

enum class GemmKind : std::uint8_t {
  kOneDnn,
  kPacked,  // kernels/gemm/packed_product.h
  kMixed,   // kOneDnn for A B with both as they lie, and for bf16; kPacked for the rest of fp32
  kAmx,     // Intel's AMX tiles
};

// AMX where the CPU has it; our packed panels where AVX2 is the widest that the kernels use, and
// for A B^T and A^T B in fp32 where it is AVX-512 of AMD; else oneDNN, which comes near the peak of
// AVX-512. The environment variable FME_GEMM overrides it with amx, packed, mixed or onednn.
// Decided at the first call. UserError (10) when FME_GEMM names what does not run here.
GemmKind chosen_gemm();
// The rule behind it: `wanted` is "" for the fastest.
GemmKind choose_gemm(std::string_view wanted);

// AMX is what chosen_gemm() says: products and attention run on its tiles.
bool amx_chosen();

}  // namespace fm::kernels
