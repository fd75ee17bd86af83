// Stores that leave the caches alone: a line that is overwritten as a whole is not read first.
#pragma once

#include "kernels/vector.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fm::kernels::FM_SIMD {

// `to` is aligned as a vector is. finish_past_cache() comes before other threads are told of it.
#if defined(__AVX512F__)
[[gnu::always_inline]] inline void store_past_cache(Vector value, float* to) {
  _mm512_stream_ps(to, value);
}
#elif defined(__AVX__)
[[gnu::always_inline]] inline void store_past_cache(Vector value, float* to) {
  _mm256_stream_ps(to, value);
}
#elif defined(__x86_64__)
[[gnu::always_inline]] inline void store_past_cache(Vector value, float* to) {
  _mm_stream_ps(to, value);
}
#else
[[gnu::always_inline]] inline void store_past_cache(Vector value, float* to) { store(value, to); }
#endif

#if defined(__x86_64__)
[[gnu::always_inline]] inline void finish_past_cache() { _mm_sfence(); }
#else
[[gnu::always_inline]] inline void finish_past_cache() {}
#endif

}  // namespace fm::kernels::FM_SIMD
