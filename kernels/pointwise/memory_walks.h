// How loops walk arrays that lie in memory. It changes no result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu.h"
#include "kernels/vector.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fm::kernels::FM_SIMD {

// Asking for lines before they are read. CPUs do so by themselves within a page of memory; those
// that begin anew at the next one (asks_ahead()) gain 5 to 15 % when loops over arrays in memory
// ask across it.
inline constexpr std::int64_t kReadAhead = 2048;  // elements of fp32
inline constexpr std::int64_t kReadPiece = 64;    // more lines at once would wait for each other

// body(i) for every i < count, in pieces that the compiler vectorizes. Lines of `arrays` are asked
// for before their turn, none beyond `count`: another rank may be writing there.
template <class Body, class... Arrays>
[[gnu::always_inline]] inline void for_each_ahead(std::int64_t count, const Body& body,
                                                  Arrays*... arrays) {
  constexpr std::int64_t kLine = 16;
  std::int64_t i = 0;
  const bool asks = asks_ahead();
  for (; asks && i + kReadPiece <= count; i += kReadPiece) {
    const std::int64_t asked = std::min(i + kReadAhead + kReadPiece, count);
    for (std::int64_t line = i + kReadAhead; line < asked; line += kLine) {
      (__builtin_prefetch(arrays + line, std::is_const_v<Arrays> ? 0 : 1, 2), ...);
    }
    for (std::int64_t at = i; at < i + kReadPiece; ++at) body(at);
  }
  for (; i < count; ++i) body(i);
}

// Stores that leave the caches alone: a line that is overwritten as a whole is not read first.
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
