#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "core/check.h"
#include "kernels/gemm.h"

namespace fm::kernels {
namespace {

const char* name_of(dnnl_cpu_isa_t isa) {
  switch (isa) {
    case dnnl_cpu_isa_sse41:
      return "sse41";
    case dnnl_cpu_isa_avx:
      return "avx";
    case dnnl_cpu_isa_avx2:
      return "avx2";
    case dnnl_cpu_isa_avx2_vnni:
      return "avx2_vnni";
    case dnnl_cpu_isa_avx512_core:
      return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl_cpu_isa_avx512_core_amx:
      return "avx512_core_amx";
    default:
      return "other instruction set";  // the enum of a foreign library grows
  }
}

char letter_of(Form form) { return form == Form::kTransposed ? 'T' : 'N'; }

}  // namespace

void gemm(const GemmShape& shape, const Operand& a, const Operand& b, const Target& c) {
  const float beta = c.beta == Beta::kOne ? 1.0F : 0.0F;
  const dnnl_status_t status =
      dnnl_sgemm(letter_of(a.form), letter_of(b.form), shape.m, shape.n, shape.k, 1.0F, a.data,
                 a.stride, b.data, b.stride, beta, c.data, c.stride);
  FM_MACHINE_CHECK(status != dnnl_out_of_memory, core::ExitCode::kOutOfMemory,
                   "a matrix product needs packing memory that the system refuses; use a smaller "
                   "micro batch (m=",
                   shape.m, ", n=", shape.n, ", k=", shape.k, ")");
  FM_CHECK(status == dnnl_success, "dnnl_sgemm returned ", static_cast<int>(status),
           " for m=", shape.m, ", n=", shape.n, ", k=", shape.k);
}

std::string gemm_library() {
  const dnnl_version_t* version = dnnl_version();
  return core::concat("oneDNN ", version->major, '.', version->minor, '.', version->patch, " (",
                      name_of(dnnl_get_effective_cpu_isa()), ")");
}

void set_kernel_threads(int threads) { omp_set_num_threads(threads); }
int kernel_threads() { return omp_get_max_threads(); }

}  // namespace fm::kernels
