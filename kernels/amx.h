// Intel's AMX tiles: whether this CPU has them, and whether they compute.
#pragma once

#include <string_view>

namespace fm::kernels {

// The CPU has AMX tiles with bf16 and AVX-512, the kernel lets this process use them, and the build
// holds code for them.
bool amx_runs_here();

// They run here, and the environment variable FME_GEMM does not say `onednn`. Decided at the first
// call. UserError (10) when FME_GEMM names what does not run here.
bool amx_chosen();
// The rule behind it: `wanted` is "" for the fastest.
bool choose_amx(std::string_view wanted);

}  // namespace fm::kernels
