// Which library multiplies: follows from CPUID and the shape alone (kernels/gemm/gemm.h).
#include "kernels/gemm/gemm.h"

#include <omp.h>

#include <algorithm>

#include "core/check.h"
#include "core/trace.h"
#include "kernels/cpu.h"
#include "kernels/gemm/libraries.h"

namespace fm::kernels {
namespace {

constexpr core::TraceForm kGemm = {"gemm", core::TraceKind::kKernel, {"m", "n", "k", "flops"}};

// Below this side the packing of a product costs more than AMX or our panels gain.
constexpr std::int64_t kOwnSide = 32;

// What computes a product.
GemmKind kind_of(const GemmShape& shape) {
  return std::min({shape.m, shape.n, shape.k}) >= kOwnSide ? chosen_gemm() : GemmKind::kOneDnn;
}

// The same in fp32, where the operands' forms count too.
GemmKind kind_of(const GemmShape& shape, Form a, Form b) {
  const GemmKind kind = kind_of(shape);
  if (kind != GemmKind::kMixed) return kind;
  return a == Form::kAsIs && b == Form::kAsIs ? GemmKind::kOneDnn : GemmKind::kPacked;
}

// Products of bf16 that AMX does not take.
Bf16Gemm* other_bf16_gemm(const GemmShape& shape) {
  if (kind_of(shape) == GemmKind::kPacked) return packed_gemm;
  if (onednn_has_bf16()) return onednn_gemm;
  return converted_gemm;
}

core::TraceValues values_of(const GemmShape& shape) {
  return {shape.m, shape.n, shape.k, 2 * shape.m * shape.n * shape.k};
}

// "packed panels (avx2)"
std::string packed_name() { return core::concat("packed panels (", variant_name(), ')'); }

}  // namespace

void gemm(const core::Work& work, const GemmShape& shape, const Operand<float>& a,
          const Operand<float>& b, const Target<float>& c) {
  const core::TraceScope scope(kGemm, values_of(shape));
  set_kernel_threads(work.threads);
  switch (kind_of(shape, a.form, b.form)) {
    case GemmKind::kAmx: return amx_gemm(shape, a, b, c);
    case GemmKind::kPacked: return packed_gemm(shape, a, b, c);
    case GemmKind::kMixed:
    case GemmKind::kOneDnn: return onednn_gemm(shape, a, b, c);
  }
}

void gemm(const core::Work& work, const GemmShape& shape, const Operand<core::Bf16>& a,
          const Operand<core::Bf16>& b, const Target<float>& c) {
  const core::TraceScope scope(kGemm, values_of(shape));
  set_kernel_threads(work.threads);
  if (kind_of(shape) == GemmKind::kAmx) return amx_gemm(shape, a, b, c);
  other_bf16_gemm(shape)(shape, a, b, c);
}

void gemm(const core::Work& work, const GemmShape& shape, const Operand<core::Bf16>& a,
          const Operand<core::Bf16>& b, const Target<core::Bf16>& c) {
  const core::TraceScope scope(kGemm, values_of(shape));
  set_kernel_threads(work.threads);
  if (kind_of(shape) == GemmKind::kAmx) return amx_gemm(shape, a, b, c);
  rounded_gemm(shape, a, b, c, other_bf16_gemm(shape));
}

std::string gemm_library() {
  switch (chosen_gemm()) {
    case GemmKind::kAmx:
      return "AMX (fp32 as three bf16 parts), small products by " + onednn_name();
    case GemmKind::kPacked: return packed_name() + ", small products by " + onednn_name();
    case GemmKind::kMixed: return packed_name() + ", dy W and small products by " + onednn_name();
    case GemmKind::kOneDnn: break;
  }
  return onednn_name();
}

std::string bf16_gemm_library() {
  std::string others = (onednn_has_bf16() ? "" : "bf16 as fp32 by ") + onednn_name();
  switch (chosen_gemm()) {
    case GemmKind::kAmx: return "AMX (bf16), small products by " + others;
    case GemmKind::kPacked: return packed_name() + " of fp32, small products by " + others;
    case GemmKind::kMixed:
    case GemmKind::kOneDnn: break;
  }
  return others;
}

bool bf16_is_fast() {
  const GemmKind kind = chosen_gemm();
  return kind == GemmKind::kAmx || kind == GemmKind::kPacked || onednn_has_bf16();
}

void set_kernel_threads(int threads) { omp_set_num_threads(threads); }
int kernel_threads() { return omp_get_max_threads(); }

}  // namespace fm::kernels
