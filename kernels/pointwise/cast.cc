#include "kernels/pointwise/cast.h"

namespace fm::kernels::FM_SIMD {

template <class From, class To>
void cast_rows(RowShape shape, const From* from, std::int64_t from_stride, To* to,
               std::int64_t to_stride) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    for (std::int64_t i = 0; i < shape.width; ++i) {
      to[i] = core::to_element<To>(core::to_float(from[i]));
    }
    from += from_stride;
    to += to_stride;
  }
}

template decltype(kernels::cast_rows<float, core::Bf16>) cast_rows;
template decltype(kernels::cast_rows<core::Bf16, float>) cast_rows;

}  // namespace fm::kernels::FM_SIMD
