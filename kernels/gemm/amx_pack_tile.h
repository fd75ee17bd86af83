// Tiles of AMX products: 16 x 16 pairs of bf16 made of fp32, split into three parts, or of bf16 as
// it is. Tiles of fp32 pair term t with term t + 16 of a step, so that splitting moves nothing
// between lanes, those of bf16 term 2 t with 2 t + 1, which lie so already.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/element.h"
#include "kernels/gemm/source.h"

namespace fm::kernels::amx {

inline constexpr std::int64_t kSide = 16;  // rows of a tile, and fp32 elements of a row
inline constexpr std::int64_t kStrip = 2 * kSide;
inline constexpr std::int64_t kStep = 2 * kSide;  // terms
inline constexpr std::int64_t kRowBytes = 64;
inline constexpr std::int64_t kTileBytes = kSide * kRowBytes;
inline constexpr std::int64_t kPartBytes = 2 * kTileBytes;
template <class T>
inline constexpr std::int64_t kPartsOf = 3;
template <>
inline constexpr std::int64_t kPartsOf<core::Bf16> = 1;
template <class T>
inline constexpr std::int64_t kStepBytesOf = kPartsOf<T>* kPartBytes;
inline constexpr std::int64_t kParts = kPartsOf<float>;
inline constexpr std::int64_t kStepBytes = kStepBytesOf<float>;

// The first `count` of 16 lanes; none or all when count is out of range.
inline __mmask16 first_lanes(std::int64_t count) {
  return static_cast<__mmask16>((1U << std::clamp<std::int64_t>(count, 0, kSide)) - 1U);
}

// Rows of a tile are vectors for the left factor and pairs of terms for the right one.
enum class Side : bool { kLeft, kRight };

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

// Row r of four = number r of each of 16 rows that begin at `from`. Pieces of four numbers come
// together from memory, so that half of the moves between lanes are loads.
struct FourRows {
  __m512i row[4];
};
[[gnu::always_inline]] inline FourRows four_columns(const void* from, std::int64_t row_bytes) {
  const auto piece = [&](std::int64_t row) {
    const auto* bytes = static_cast<const std::byte*>(from) + row * row_bytes;
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
  };
  __m512i rows[4];  // number 0 to 3 of rows r, 4 + r, 8 + r, 12 + r
  for (std::int64_t r = 0; r < 4; ++r) {
    rows[r] = _mm512_castsi128_si512(piece(r));
    rows[r] = _mm512_inserti32x4(rows[r], piece(4 + r), 1);
    rows[r] = _mm512_inserti32x4(rows[r], piece(8 + r), 2);
    rows[r] = _mm512_inserti32x4(rows[r], piece(12 + r), 3);
  }
  const __m512i low01 = _mm512_unpacklo_epi32(rows[0], rows[1]);
  const __m512i high01 = _mm512_unpackhi_epi32(rows[0], rows[1]);
  const __m512i low23 = _mm512_unpacklo_epi32(rows[2], rows[3]);
  const __m512i high23 = _mm512_unpackhi_epi32(rows[2], rows[3]);
  return {{_mm512_unpacklo_epi64(low01, low23), _mm512_unpackhi_epi64(low01, low23),
           _mm512_unpacklo_epi64(high01, high23), _mm512_unpackhi_epi64(high01, high23)}};
}

// Row r of `to` = number r of each of the 16 rows of `from`.
[[gnu::always_inline]] inline void transpose_from(const void* from, std::int64_t row_bytes,
                                                  std::byte* to) {
  const auto* bytes = static_cast<const std::byte*>(from);
  for (std::int64_t at = 0; at < kRowBytes; at += 16) {
    const FourRows four = four_columns(bytes + at, row_bytes);
    for (const __m512i row : four.row) {
      _mm512_storeu_si512(to, row);
      to += kRowBytes;
    }
  }
}

// Rows of `to` are vectors of pairs of terms (adjacent terms), or pairs of terms of 16 vectors.
template <bool kAdjacentTerms>
[[gnu::always_inline]] inline void pack_pairs(const core::Bf16* from, std::int64_t stride,
                                              Extent extent, std::byte* to) {
  const __mmask16 vectors = first_lanes(extent.vectors);
  const auto terms = static_cast<__mmask32>(first_lanes(extent.terms) |
                                            unsigned{first_lanes(extent.terms - kSide)} << kSide);
  for (std::int64_t i = 0; i < kSide; ++i, to += kRowBytes) {
    if constexpr (kAdjacentTerms) {
      const __mmask32 lanes = i < extent.vectors ? terms : __mmask32{0};
      _mm512_storeu_si512(to, _mm512_maskz_loadu_epi16(lanes, from + i * stride));
    } else {
      const core::Bf16* row = from + 2 * i * stride;
      const __mmask16 even = 2 * i < extent.terms ? vectors : __mmask16{0};
      const __mmask16 odd = 2 * i + 1 < extent.terms ? vectors : __mmask16{0};
      const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(even, row));
      const __m512i high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(odd, row + stride));
      _mm512_storeu_si512(to, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
  }
}

// The one tile of a step of bf16.
template <Side kWanted, bool kAdjacentTerms>
void pack_tile(const core::Bf16* from, std::int64_t stride, Extent extent, std::byte* to) {
  constexpr bool kTransposed = kAdjacentTerms != (kWanted == Side::kLeft);
  const bool whole = extent.vectors >= kSide && extent.terms >= kStep;
  if (kTransposed && kAdjacentTerms && whole) {
    transpose_from(from, 2 * stride, to);
    return;
  }
  alignas(64) std::byte pairs[kTileBytes];
  std::byte* const at = kTransposed ? pairs : to;
  if (whole) {
    pack_pairs<kAdjacentTerms>(from, stride, {kSide, kStep}, at);
  } else {
    pack_pairs<kAdjacentTerms>(from, stride, extent, at);
  }
  if (kTransposed) transpose_from(pairs, kRowBytes, to);
}

}  // namespace fm::kernels::amx
