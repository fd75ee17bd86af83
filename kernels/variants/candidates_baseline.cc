// Where no wider instruction set is built: other processors, and sanitizers, whose unoptimized
// inline functions must not be compiled for a CPU that may not be there.
#include "core/check.h"
#include "kernels/attention/paths.h"
#include "kernels/cpu.h"
#include "kernels/gemm/libraries.h"
#include "kernels/variants/variant.h"

namespace fm::kernels::baseline {
extern const Variant kVariant;
}  // namespace fm::kernels::baseline

namespace fm::kernels {
namespace {

void refuse() { FM_CHECK(false, "work was given to AMX, which is not here"); }

}  // namespace

std::span<const VariantCandidate> candidates() {
  static constexpr VariantCandidate kCandidates[] = {{&baseline::kVariant, [] { return true; }}};
  return kCandidates;
}

bool cpu_is_amd() { return false; }
bool amx_runs_here() { return false; }
bool avx512_bf16_runs_here() { return false; }

void amx_attention_forward(const HeadGroup&, const GroupForward&, float*) { refuse(); }
void amx_attention_backward(const HeadGroup&, const GroupBackward&, float*) { refuse(); }
std::int64_t amx_attention_forward_scratch(const HeadGroup&) { return 0; }
std::int64_t amx_attention_backward_scratch(const HeadGroup&) { return 0; }

void amx_gemm(const GemmShape&, const Operand<float>&, const Operand<float>&,
              const Target<float>&) {
  refuse();
}
void amx_gemm(const GemmShape&, const Operand<core::Bf16>&, const Operand<core::Bf16>&,
              const Target<float>&) {
  refuse();
}
void amx_gemm(const GemmShape&, const Operand<core::Bf16>&, const Operand<core::Bf16>&,
              const Target<core::Bf16>&) {
  refuse();
}

}  // namespace fm::kernels
