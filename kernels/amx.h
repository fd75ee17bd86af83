// Intel's AMX tiles: whether this CPU has them, and whether they compute.
#pragma once

namespace fm::kernels {

// The CPU has AMX tiles with bf16 and AVX-512, the kernel lets this process use them, and the build
// holds code for them.
bool amx_runs_here();

// They are what chosen_gemm() says (kernels/gemm/kind.h): products and attention run on them.
bool amx_chosen();

}  // namespace fm::kernels
