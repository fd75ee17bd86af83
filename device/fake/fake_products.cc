#include <type_traits>

#include "device/fake/fake_kernels.h"
#include "device/fake/later.h"

namespace fm::device {
namespace {

using kernels::GemmShape;
using kernels::Operand;
using kernels::Target;

template <class T, class C>
using Product = void (*)(const core::Work&, const GemmShape&, const Operand<T>&, const Operand<T>&,
                         const Target<C>&);

template <class T>
void fill(kernels::DeviceProducts<T>& table) {
  table.gemm = Later<static_cast<Product<T, float>>(&kernels::gemm)>::run;
  if constexpr (!std::is_same_v<T, float>) {
    table.narrow_gemm = Later<static_cast<Product<T, T>>(&kernels::gemm)>::run;
  }
  table.attention_forward = Later<&kernels::attention_forward<T>>::run;
  table.attention_backward = Later<&kernels::attention_backward<T>>::run;
  table.attention_cached = Later<&kernels::attention_cached<T>>::run;
}

}  // namespace

void fill_products(kernels::DeviceKernels& table) {
  fill(table.products.fp32);
  fill(table.products.bf16);
  fill(table.products.fp16);
  table.merge_partial_softmax = Later<&kernels::merge_partial_softmax>::run;
}

}  // namespace fm::device
