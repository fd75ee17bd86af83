// Which library multiplies: follows from CPUID and the shape alone (kernels/gemm.h).
#include "kernels/gemm.h"

#include <omp.h>

#include <algorithm>

#include "core/check.h"
#include "core/trace_recorder.h"
#include "kernels/amx.h"
#include "kernels/gemm_libraries.h"

namespace fm::kernels {
namespace {

constexpr core::TraceForm kGemm = {"gemm", core::TraceKind::kKernel, {"m", "n", "k", "flops"}};

// Below this side the packing of a product costs more than AMX gains.
constexpr std::int64_t kAmxSide = 32;

}  // namespace

void gemm(const GemmShape& shape, const Operand<float>& a, const Operand<float>& b,
          const Target<float>& c) {
  const core::TraceScope scope(kGemm, {shape.m, shape.n, shape.k, 2 * shape.m * shape.n * shape.k});
  const bool large = std::min({shape.m, shape.n, shape.k}) >= kAmxSide;
  (large && amx_chosen() ? amx_gemm : onednn_gemm)(shape, a, b, c);
}

void gemm(const GemmShape& shape, const Operand<core::Bf16>& a, const Operand<core::Bf16>& b,
          const Target<float>& c) {
  const core::TraceScope scope(kGemm, {shape.m, shape.n, shape.k, 2 * shape.m * shape.n * shape.k});
  converted_gemm(shape, a, b, c);
}

void gemm(const GemmShape& shape, const Operand<core::Bf16>& a, const Operand<core::Bf16>& b,
          const Target<core::Bf16>& c) {
  const core::TraceScope scope(kGemm, {shape.m, shape.n, shape.k, 2 * shape.m * shape.n * shape.k});
  rounded_gemm(shape, a, b, c, converted_gemm);
}

std::string gemm_library() {
  if (!amx_chosen()) return onednn_name();
  return core::concat("AMX (fp32 as three bf16 parts), small products by ", onednn_name());
}

std::string bf16_gemm_library() { return core::concat("bf16 as fp32 by ", onednn_name()); }

bool bf16_is_fast() { return amx_chosen() || avx512_bf16_runs_here(); }

void set_kernel_threads(int threads) { omp_set_num_threads(threads); }
int kernel_threads() { return omp_get_max_threads(); }

}  // namespace fm::kernels
