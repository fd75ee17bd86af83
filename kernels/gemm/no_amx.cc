// For processors that are not x86-64.
#include "core/check.h"
#include "kernels/gemm/libraries.h"

namespace fm::kernels {

namespace {

void refuse(const GemmShape& shape) {
  FM_CHECK(false, "a product of ", shape.m, " rows was given to AMX, which is not here");
}

}  // namespace

void amx_gemm(const GemmShape& shape, const Operand<float>&, const Operand<float>&,
              const Target<float>&) {
  refuse(shape);
}
void amx_gemm(const GemmShape& shape, const Operand<core::Bf16>&, const Operand<core::Bf16>&,
              const Target<float>&) {
  refuse(shape);
}
void amx_gemm(const GemmShape& shape, const Operand<core::Bf16>&, const Operand<core::Bf16>&,
              const Target<core::Bf16>&) {
  refuse(shape);
}

}  // namespace fm::kernels
