// Which library multiplies: follows from CPUID and the shape alone (kernels/gemm/gemm.h).
#include "kernels/gemm/gemm.h"

#include <algorithm>

#include "core/check.h"
#include "kernels/cpu.h"
#include "kernels/gemm/libraries.h"
#include "kernels/threads.h"

namespace fm::kernels {
namespace {

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

// What computes products of T for a target of fp32.
template <class T>
Gemm<T>* narrow_product(const GemmShape& shape) {
  const GemmKind kind = kind_of(shape);
  if (kind == GemmKind::kPacked) return packed_gemm;
  if constexpr (std::is_same_v<T, core::Bf16>) {
    if (kind == GemmKind::kAmx) return amx_gemm;
    if (onednn_has_bf16()) return onednn_gemm;
  }
  return converted_gemm<T>;
}

// "packed panels (avx2)"
std::string packed_name() { return core::concat("packed panels (", variant_name(), ')'); }

}  // namespace

template <>
void gemm_here(const core::Work& work, const GemmShape& shape, const Operand<float>& a,
               const Operand<float>& b, const Target<float>& c) {
  set_kernel_threads(work.threads);
  switch (kind_of(shape, a.form, b.form)) {
    case GemmKind::kAmx: return amx_gemm(shape, a, b, c);
    case GemmKind::kPacked: return packed_gemm(shape, a, b, c);
    case GemmKind::kMixed:
    case GemmKind::kOneDnn: return onednn_gemm(shape, a, b, c);
  }
}

template <class T, class C>
void gemm_here(const core::Work& work, const GemmShape& shape, const Operand<T>& a,
               const Operand<T>& b, const Target<C>& c) {
  set_kernel_threads(work.threads);
  if constexpr (std::is_same_v<C, float>) {
    narrow_product<T>(shape)(shape, a, b, c);
  } else {
    if constexpr (std::is_same_v<T, core::Bf16>) {
      if (kind_of(shape) == GemmKind::kAmx) return amx_gemm(shape, a, b, c);
    }
    rounded_gemm(shape, a, b, c, narrow_product<T>(shape));
  }
}
template void gemm_here(const core::Work&, const GemmShape&, const Operand<core::Bf16>&,
                        const Operand<core::Bf16>&, const Target<float>&);
template void gemm_here(const core::Work&, const GemmShape&, const Operand<core::Bf16>&,
                        const Operand<core::Bf16>&, const Target<core::Bf16>&);
template void gemm_here(const core::Work&, const GemmShape&, const Operand<core::F16>&,
                        const Operand<core::F16>&, const Target<float>&);
template void gemm_here(const core::Work&, const GemmShape&, const Operand<core::F16>&,
                        const Operand<core::F16>&, const Target<core::F16>&);

std::string gemm_library(core::DType element) {
  const bool fp32 = element == core::DType::kF32;
  const std::string type(core::name_of(element));
  const bool itself = fp32 || (element == core::DType::kBF16 && onednn_has_bf16());
  std::string rest = (itself ? "" : type + " as fp32 by ") + onednn_name();
  const std::string packed = packed_name() + (fp32 ? "" : " of fp32");
  switch (chosen_gemm()) {
    case GemmKind::kAmx:
      if (element == core::DType::kF16) return type + " as fp32 by AMX (three bf16 parts)";
      return (fp32 ? "AMX (fp32 as three bf16 parts)" : "AMX (bf16)") +
             (", small products by " + rest);
    case GemmKind::kPacked: return packed + ", small products by " + rest;
    case GemmKind::kMixed: return fp32 ? packed + ", dy W and small products by " + rest : rest;
    case GemmKind::kOneDnn: break;
  }
  return rest;
}

bool gemm_is_fast(core::DType element) {
  const GemmKind kind = chosen_gemm();
  if (element == core::DType::kF32 || kind == GemmKind::kPacked) return true;
  return element == core::DType::kBF16 && (kind == GemmKind::kAmx || onednn_has_bf16());
}

}  // namespace fm::kernels
