// Operands of AMX products: fp32 split into parts of bf16, packed for tiles. A packed strip is a
// row of steps of 32 terms; a step holds the parts, high first, of two tiles. Tiles pair term t
// with term t + 16 of the step, so that splitting moves nothing between lanes.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace fm::kernels::amx {

inline constexpr std::int64_t kSide = 16;  // rows of a tile, and fp32 elements of a row
inline constexpr std::int64_t kStrip = 2 * kSide;
inline constexpr std::int64_t kStep = 2 * kSide;  // terms
inline constexpr std::int64_t kParts = 3;
inline constexpr std::int64_t kRowBytes = 64;
inline constexpr std::int64_t kTileBytes = kSide * kRowBytes;
inline constexpr std::int64_t kPartBytes = 2 * kTileBytes;
inline constexpr std::int64_t kStepBytes = kParts * kPartBytes;
inline std::int64_t steps_of(std::int64_t depth) { return (depth + kStep - 1) / kStep; }

// The first `count` of 16 lanes; none or all when count is out of range.
inline __mmask16 first_lanes(std::int64_t count) {
  return static_cast<__mmask16>((1U << std::clamp<std::int64_t>(count, 0, kSide)) - 1U);
}

// An operand as vectors (rows of A, columns of B) of terms.
struct Source {
  const float* data;
  std::int64_t stride;
  bool adjacent_terms;  // else adjacent vectors

  const float* at(std::int64_t vector, std::int64_t term) const {
    return adjacent_terms ? data + vector * stride + term : data + term * stride + vector;
  }
};

// Rows of a tile are vectors for the left factor and pairs of terms for the right one.
enum class Side : bool { kLeft, kRight };

struct Extent {
  std::int64_t vectors;
  std::int64_t terms;
};

using Rows = __m512[kSide];

[[gnu::always_inline]] inline void transpose(Rows& rows) {
  Rows mixed;
  for (int i = 0; i < 16; i += 2) {
    mixed[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
    mixed[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
  }
  const auto low = [](__m512 a, __m512 b) {
    return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
  };
  const auto high = [](__m512 a, __m512 b) {
    return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
  };
  for (int i = 0; i < 16; i += 4) {
    rows[i] = low(mixed[i], mixed[i + 2]);
    rows[i + 1] = high(mixed[i], mixed[i + 2]);
    rows[i + 2] = low(mixed[i + 1], mixed[i + 3]);
    rows[i + 3] = high(mixed[i + 1], mixed[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    mixed[i] = _mm512_shuffle_f32x4(rows[i], rows[i + 4], 0x88);
    mixed[i + 4] = _mm512_shuffle_f32x4(rows[i], rows[i + 4], 0xDD);
    mixed[i + 8] = _mm512_shuffle_f32x4(rows[i + 8], rows[i + 12], 0x88);
    mixed[i + 12] = _mm512_shuffle_f32x4(rows[i + 8], rows[i + 12], 0xDD);
  }
  for (int i = 0; i < 8; ++i) {
    rows[i] = _mm512_shuffle_f32x4(mixed[i], mixed[i + 8], 0x88);
    rows[i + 8] = _mm512_shuffle_f32x4(mixed[i], mixed[i + 8], 0xDD);
  }
}

// Splits 16 + 16 numbers into parts and stores each part's 16 pairs. Rounding to the nearest keeps
// the rest of a part at most half its last place. The third part is exact without; rounded, a NaN
// whose payload is all ones would become zero.
[[gnu::always_inline]] inline void store_parts(__m512 first, __m512 second, std::byte* to) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
  const __m512i half = _mm512_set1_epi32(0x8000);
  for (std::int64_t part = 0; part < kParts; ++part) {
    const __m512i round = part + 1 < kParts ? half : _mm512_setzero_si512();
    const __m512i a = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(first), round), upper);
    const __m512i b = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(second), round), upper);
    _mm512_storeu_si512(to + part * kPartBytes, _mm512_or_si512(b, _mm512_srli_epi32(a, 16)));
    first = _mm512_sub_ps(first, _mm512_castsi512_ps(a));
    second = _mm512_sub_ps(second, _mm512_castsi512_ps(b));
  }
}

// One tile of every part of a step. What lies beyond the extent counts as zero.
template <Side kWanted, bool kAdjacentTerms>
void pack_tile(const float* from, std::int64_t stride, Extent extent, std::byte* to) {
  Rows first;   // terms 0 to 15 of the step
  Rows second;  // terms 16 to 31
  for (std::int64_t i = 0; i < kSide; ++i) {
    const float* row = from + i * stride;
    if constexpr (kAdjacentTerms) {
      const std::int64_t terms = i < extent.vectors ? extent.terms : 0;
      first[i] = _mm512_maskz_loadu_ps(first_lanes(terms), row);
      second[i] = _mm512_maskz_loadu_ps(first_lanes(terms - kSide), row + kSide);
    } else {
      const __mmask16 vectors = first_lanes(extent.vectors);
      first[i] = _mm512_maskz_loadu_ps(i < extent.terms ? vectors : __mmask16{0}, row);
      second[i] = _mm512_maskz_loadu_ps(i + kSide < extent.terms ? vectors : __mmask16{0},
                                        row + kSide * stride);
    }
  }
  if constexpr (kAdjacentTerms != (kWanted == Side::kLeft)) {
    transpose(first);
    transpose(second);
  }
  for (std::int64_t i = 0; i < kSide; ++i) store_parts(first[i], second[i], to + i * kRowBytes);
}

// A step of a strip, from `from` on.
template <Side kWanted>
void pack_step(const Source& source, const float* from, Extent extent, std::byte* to) {
  const std::int64_t second = kSide * (source.adjacent_terms ? source.stride : 1);
  for (const std::int64_t tile : {0, 1}) {
    const Extent rest{extent.vectors - tile * kSide, extent.terms};
    (source.adjacent_terms ? pack_tile<kWanted, true>
                           : pack_tile<kWanted, false>)(from + tile * second, source.stride, rest,
                                                        to + tile * kTileBytes);
  }
}

struct Place {
  std::int64_t vector;
  std::int64_t term;
};

// Every step of one strip.
template <Side kWanted>
void pack_strip(const Source& source, Place place, Extent extent, std::byte* to) {
  for (std::int64_t term = 0; term < extent.terms; term += kStep, to += kStepBytes) {
    pack_step<kWanted>(source, source.at(place.vector, place.term + term),
                       {extent.vectors, extent.terms - term}, to);
  }
}

// Piece i of a held block, in an order that reads memory along its rows: a strip where terms are
// adjacent, else a step of all strips.
template <Side kWanted>
void pack_piece(const Source& source, Place place, Extent extent, std::int64_t i, std::byte* to) {
  const std::int64_t strip_bytes = steps_of(extent.terms) * kStepBytes;
  if (source.adjacent_terms) {
    const std::int64_t vector = i * kStrip;
    pack_strip<kWanted>(source, {place.vector + vector, place.term},
                        {extent.vectors - vector, extent.terms}, to + i * strip_bytes);
    return;
  }
  const std::int64_t term = i * kStep;
  for (std::int64_t vector = 0; vector < extent.vectors; vector += kStrip) {
    pack_step<kWanted>(source, source.at(place.vector + vector, place.term + term),
                       {extent.vectors - vector, extent.terms - term},
                       to + vector / kStrip * strip_bytes + i * kStepBytes);
  }
}

}  // namespace fm::kernels::amx
