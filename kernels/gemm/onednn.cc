// GEMM by Debian's oneDNN, loaded at run time into a scope of its own. LibTorch carries another
// version of oneDNN inside, and both export the weak symbol of the std::call_once that makes the
// JIT kernels (std::once_flag::_Prepare_execution<... gemm_info_t<...>::jit_init() ...>). Linked
// the plain way, whichever library comes second runs the other's lambda and every product fails
// with dnnl_unimplemented. RTLD_DEEPBIND keeps oneDNN with its own symbols, RTLD_LOCAL keeps
// them from LibTorch.
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>

#include "core/check.h"
#include "kernels/cpu.h"
#include "kernels/gemm/libraries.h"

namespace fm::kernels {
namespace {

// Exported by oneDNN 2.x for its own tests, in none of its headers.
using Bf16Function = dnnl_status_t(char trans_a, char trans_b, dnnl_dim_t m, dnnl_dim_t n,
                                   dnnl_dim_t k, float alpha, const core::Bf16* a, dnnl_dim_t lda,
                                   const core::Bf16* b, dnnl_dim_t ldb, float beta, float* c,
                                   dnnl_dim_t ldc);

struct OneDnn {
  decltype(&dnnl_sgemm) sgemm = nullptr;
  Bf16Function* bf16_gemm = nullptr;  // null where it is not exported
  decltype(&dnnl_version) version = nullptr;
  decltype(&dnnl_get_effective_cpu_isa) effective_isa = nullptr;
};

template <class Function>
Function symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  FM_USER_CHECK(found != nullptr, "oneDNN 2.6 or later of the 2.x line is required; install ",
                "libdnnl2 (no symbol ", name, ")");
  return reinterpret_cast<Function>(found);
}

OneDnn load() {
  constexpr const char* kName = "libdnnl.so.2";
  void* library = dlopen(kName, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  FM_USER_CHECK(library != nullptr, "the matrix library ", kName,
                " is required; install libdnnl2 (", dlerror(), ")");
  return {symbol<decltype(&dnnl_sgemm)>(library, "dnnl_sgemm"),
          reinterpret_cast<Bf16Function*>(dlsym(library, "dnnl_gemm_bf16bf16f32")),
          symbol<decltype(&dnnl_version)>(library, "dnnl_version"),
          symbol<decltype(&dnnl_get_effective_cpu_isa)>(library, "dnnl_get_effective_cpu_isa")};
}

const OneDnn& onednn() {
  static const OneDnn kLibrary = load();
  return kLibrary;
}

struct IsaName {
  dnnl_cpu_isa_t isa;
  const char* name;
};
constexpr IsaName kIsaNames[] = {
    {dnnl_cpu_isa_sse41, "sse41"},
    {dnnl_cpu_isa_avx, "avx"},
    {dnnl_cpu_isa_avx2, "avx2"},
    {dnnl_cpu_isa_avx2_vnni, "avx2_vnni"},
    {dnnl_cpu_isa_avx512_core, "avx512_core"},
    {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
    {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
    {dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"},
};

const char* name_of(dnnl_cpu_isa_t isa) {
  for (const IsaName& at : kIsaNames) {
    if (at.isa == isa) return at.name;
  }
  return "other instruction set";
}

char letter_of(Form form) { return form == Form::kTransposed ? 'T' : 'N'; }

void check(dnnl_status_t status, const char* function, const GemmShape& shape) {
  FM_MACHINE_CHECK(status != dnnl_out_of_memory, core::ExitCode::kOutOfMemory,
                   "a matrix product needs packing memory that the system refuses; use a smaller "
                   "micro batch (m=",
                   shape.m, ", n=", shape.n, ", k=", shape.k, ")");
  FM_CHECK(status == dnnl_success, function, " returned ", static_cast<int>(status),
           " for m=", shape.m, ", n=", shape.n, ", k=", shape.k);
}

}  // namespace

void onednn_gemm(const GemmShape& shape, const Operand<float>& a, const Operand<float>& b,
                 const Target<float>& c) {
  const float beta = c.beta == Beta::kOne ? 1.0F : 0.0F;
  const dnnl_status_t status =
      onednn().sgemm(letter_of(a.form), letter_of(b.form), shape.m, shape.n, shape.k, 1.0F, a.data,
                     a.stride, b.data, b.stride, beta, c.data, c.stride);
  check(status, "dnnl_sgemm", shape);
}

// ONEDNN_MAX_CPU_ISA may forbid what the CPU has.
bool onednn_has_bf16() {
  if (!avx512_bf16_runs_here() || onednn().bf16_gemm == nullptr) return false;
  const dnnl_cpu_isa_t isa = onednn().effective_isa();
  return isa == dnnl_cpu_isa_avx512_core_bf16 || isa == dnnl_cpu_isa_avx512_core_amx;
}

void onednn_gemm(const GemmShape& shape, const Operand<core::Bf16>& a, const Operand<core::Bf16>& b,
                 const Target<float>& c) {
  const float beta = c.beta == Beta::kOne ? 1.0F : 0.0F;
  const dnnl_status_t status =
      onednn().bf16_gemm(letter_of(a.form), letter_of(b.form), shape.m, shape.n, shape.k, 1.0F,
                         a.data, a.stride, b.data, b.stride, beta, c.data, c.stride);
  check(status, "dnnl_gemm_bf16bf16f32", shape);
}

std::string onednn_name() {
  const dnnl_version_t* version = onednn().version();
  return core::concat("oneDNN ", version->major, '.', version->minor, '.', version->patch, " (",
                      name_of(onednn().effective_isa()), ")");
}

}  // namespace fm::kernels
