// For processors that are not x86-64.
#include "core/check.h"
#include "kernels/gemm_libraries.h"

namespace fm::kernels {

void amx_gemm(const GemmShape& shape, const Operand<float>&, const Operand<float>&,
              const Target<float>&) {
  FM_CHECK(false, "a product of ", shape.m, " rows was given to AMX, which is not here");
}

}  // namespace fm::kernels
