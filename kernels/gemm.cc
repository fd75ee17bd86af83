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

// Whether AMX takes a product.
bool amx_takes(const GemmShape& shape) {
  return std::min({shape.m, shape.n, shape.k}) >= kAmxSide && amx_chosen();
}

// Products of bf16 that AMX does not take.
Bf16Gemm* other_bf16_gemm() {
  if (onednn_has_bf16()) return onednn_gemm;
  return converted_gemm;
}

core::TraceValues values_of(const GemmShape& shape) {
  return {shape.m, shape.n, shape.k, 2 * shape.m * shape.n * shape.k};
}

}  // namespace

void gemm(const GemmShape& shape, const Operand<float>& a, const Operand<float>& b,
          const Target<float>& c) {
  const core::TraceScope scope(kGemm, values_of(shape));
  if (amx_takes(shape)) return amx_gemm(shape, a, b, c);
  onednn_gemm(shape, a, b, c);
}

void gemm(const GemmShape& shape, const Operand<core::Bf16>& a, const Operand<core::Bf16>& b,
          const Target<float>& c) {
  const core::TraceScope scope(kGemm, values_of(shape));
  if (amx_takes(shape)) return amx_gemm(shape, a, b, c);
  other_bf16_gemm()(shape, a, b, c);
}

void gemm(const GemmShape& shape, const Operand<core::Bf16>& a, const Operand<core::Bf16>& b,
          const Target<core::Bf16>& c) {
  const core::TraceScope scope(kGemm, values_of(shape));
  if (amx_takes(shape)) return amx_gemm(shape, a, b, c);
  rounded_gemm(shape, a, b, c, other_bf16_gemm());
}

std::string gemm_library() {
  if (!amx_chosen()) return onednn_name();
  return core::concat("AMX (fp32 as three bf16 parts), small products by ", onednn_name());
}

std::string bf16_gemm_library() {
  const std::string others = (onednn_has_bf16() ? "" : "bf16 as fp32 by ") + onednn_name();
  return amx_chosen() ? "AMX (bf16), small products by " + others : others;
}

bool bf16_is_fast() { return amx_chosen() || avx512_bf16_runs_here(); }

void set_kernel_threads(int threads) { omp_set_num_threads(threads); }
int kernel_threads() { return omp_get_max_threads(); }

}  // namespace fm::kernels
