#include "kernels/dropout.h"

#include "core/element.h"
#include "kernels/dropout_words.h"
#include "kernels/without_work.h"

namespace fm::kernels::FM_SIMD {

using core::Bf16;
using core::F16;
using core::to_element;
using core::to_float;

template <class T>
void dropout(const Dropout& by, std::uint64_t first, std::int64_t count, T* x) {
  const auto before = static_cast<std::int64_t>(first % kDropoutGroup);  // in the first group
  for (std::int64_t i = -before; i < count; i += kDropoutGroup) {
    DropoutWords words;
    fill_words(by.key, first + static_cast<std::uint64_t>(i), words);
    const std::int64_t end = std::min(kDropoutGroup, count - i);
    for (std::int64_t j = std::max(-i, std::int64_t{0}); j < end; ++j) {
      x[i + j] = words.at[j] < by.dropped ? to_element<T>(0.0F)
                                          : to_element<T>(to_float(x[i + j]) * by.scale);
    }
  }
}

template WithoutWork<decltype(kernels::dropout<float>)> dropout;
template WithoutWork<decltype(kernels::dropout<Bf16>)> dropout;
template WithoutWork<decltype(kernels::dropout<F16>)> dropout;

}  // namespace fm::kernels::FM_SIMD
