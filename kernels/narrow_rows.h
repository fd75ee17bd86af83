// Rows between fp32 and bf16 or fp16, as core/element.h converts one number. Where the CPU has
// instructions for fp16 (F16C, AVX-512) they give the same bits.
#pragma once

#include <cstdint>

#include "core/element.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace fm::kernels::FM_SIMD {

template <class From, class To>
[[gnu::always_inline]] inline void convert_row(std::int64_t count, const From* from, To* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = core::to_element<To>(core::to_float(from[i]));
}

#if defined(__F16C__)
inline constexpr std::int64_t kHalves = 8;  // of an instruction

[[gnu::always_inline]] inline __m256 load_halves(const core::F16* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

[[gnu::always_inline]] inline void convert_row(std::int64_t count, const core::F16* from,
                                               float* to) {
  const std::int64_t whole = count / kHalves * kHalves;
  for (std::int64_t i = 0; i < whole; i += kHalves) _mm256_storeu_ps(to + i, load_halves(from + i));
  convert_row<core::F16, float>(count - whole, from + whole, to + whole);
}

[[gnu::always_inline]] inline void convert_row(std::int64_t count, const float* from,
                                               core::F16* to) {
  const std::int64_t whole = count / kHalves * kHalves;
  for (std::int64_t i = 0; i < whole; i += kHalves) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), halves);
  }
  convert_row<float, core::F16>(count - whole, from + whole, to + whole);
}
#endif

}  // namespace fm::kernels::FM_SIMD
