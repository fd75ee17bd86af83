// Attention in strips: 32 queries, 32 keys or 32 elements of a head. A matrix of sums is made of
// corners, 32 x 32 each side by side in memory; one of parts is made of steps (amx_strips.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/gemm/amx_tiles.h"
#include "kernels/gemm/gemm.h"
#include "kernels/vector.h"

namespace fm::kernels::amx {

static_assert(kVectorFloats == kSide);

inline constexpr float kLog2E = 1.44269504088896341F;
inline constexpr std::int64_t kCornerFloats = kStrip * kStrip;
inline constexpr std::int64_t kStepFloats = kStepBytes / static_cast<std::int64_t>(sizeof(float));
inline std::int64_t strips_of(std::int64_t count) { return (count + kStrip - 1) / kStrip; }

// 2^x of kernels/vector.h in fewer instructions, bit for bit where that is not 0; NaN for NaN.
[[gnu::always_inline]] inline Vector power(Vector x) {
  const Vector r = _mm512_reduce_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  Vector poly = splat(1.535336188319500e-4F);
  for (const float term : {1.339887440266574e-3F, 9.618437357674640e-3F, 5.550332471162809e-2F,
                           2.402264791363012e-1F, 6.931472028550421e-1F, 1.0F}) {
    poly = _mm512_fmadd_ps(poly, r, splat(term));
  }
  return _mm512_scalef_ps(poly, x - r);
}

// store_parts() without rounding. Every part has the sign of the number, so that what products
// leave out would lean one way if both factors were split like this; one factor may be.
[[gnu::always_inline]] inline void store_cut_parts(__m512 first, __m512 second, std::byte* to) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
  constexpr int kSelect = 0xEA;  // (a & b) | c
  for (std::int64_t part = 0; part < kParts; ++part) {
    const __m512i a = _mm512_castps_si512(first);
    const __m512i b = _mm512_castps_si512(second);
    _mm512_storeu_si512(to + part * kPartBytes,
                        _mm512_ternarylogic_epi32(b, upper, _mm512_srli_epi32(a, 16), kSelect));
    first = _mm512_sub_ps(first, _mm512_castsi512_ps(_mm512_and_si512(a, upper)));
    second = _mm512_sub_ps(second, _mm512_castsi512_ps(_mm512_and_si512(b, upper)));
  }
}

// Work space, taken piece by piece. Without memory it only counts.
class Taker {
 public:
  explicit Taker(float* memory) : memory_(memory) {}
  float* floats(std::int64_t count) {
    float* const taken = memory_ == nullptr ? nullptr : memory_ + count_;
    count_ += count;
    return taken;
  }
  float* corners(std::int64_t count) { return floats(count * kCornerFloats); }
  std::byte* steps(std::int64_t count) {
    return reinterpret_cast<std::byte*>(floats(count * kStepFloats));
  }
  std::int64_t count() const { return count_; }

 private:
  float* memory_;
  std::int64_t count_ = 0;
};

// Work of the vector units in small portions between the products of tiles, which take 64 cycles
// each: more than about 100 instructions in a row leave the tiles idle.
template <class Portion>
class Meanwhile {
 public:
  // portion() as often as there are portions, spread evenly over `steps` steps of products.
  Meanwhile(std::int64_t portions, std::int64_t steps, const Portion& portion)
      : portions_(portions), calls_(6 * steps), portion_(portion) {}
  void advance() {
    for (credit_ += portions_; credit_ >= calls_ && done_ < portions_; credit_ -= calls_) {
      portion_();
      ++done_;
    }
  }
  void finish() {
    for (; done_ < portions_; ++done_) portion_();
  }

 private:
  std::int64_t portions_;
  std::int64_t calls_;
  std::int64_t credit_ = 0;
  std::int64_t done_ = 0;
  Portion portion_;
};

// Nothing else to do.
struct Idle {
  void advance() const {}
};

// corner = or += the product of two strips.
template <Beta kBeta, class BackwardBuffers>
[[gnu::always_inline]] inline void multiply_corner(const std::byte* left, const std::byte* right,
                                                   std::int64_t steps, float* corner,
                                                   BackwardBuffers& meanwhile) {
  if constexpr (kBeta == Beta::kOne) {
    load_corner(corner, kStrip);
  } else {
    zero_corner();
  }
  for (std::int64_t i = 0; i < steps; ++i, left += kStepBytes, right += kStepBytes) {
    multiply_step(left, right, [&](int) { meanwhile.advance(); });
  }
  store_corner(corner, kStrip);
}

}  // namespace fm::kernels::amx
