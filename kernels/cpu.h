// What this CPU is, as far as kernels ask (CPUID, and what the operating system lets programs use).
#pragma once

#include <string_view>

namespace fm::kernels {

// Whether CPUID names AMD.
bool cpu_is_amd();

// Whether loops over arrays in memory ask for lines ahead (kernels/pointwise/memory_walks.h). Not
// on AMD's CPUs: with it an all-reduce in place takes 1.2 times as long on a Zen 4.
bool asks_ahead();

// The CPU has AMX tiles with bf16 and AVX-512, the kernel lets this process use them, and the build
// holds code for them.
bool amx_runs_here();

// The CPU has AVX512_BF16.
bool avx512_bf16_runs_here();

// The instruction set that was chosen for the kernels: "baseline", "avx2" or "avx512"
// (kernels/variants/variant.h).
std::string_view variant_name();

}  // namespace fm::kernels
