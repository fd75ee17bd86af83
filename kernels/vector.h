// Registers of the instruction set that a kernel is compiled for (kernels/CMakeLists.txt names
// their width), for the few loops that compilers do not vectorize by themselves. Every operation
// works lane by lane, so the width changes no result.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

namespace fm::kernels::FM_SIMD {

inline constexpr int kVectorFloats = FM_VECTOR_BYTES / static_cast<int>(sizeof(float));
using Vector [[gnu::vector_size(FM_VECTOR_BYTES)]] = float;
inline constexpr auto kEveryLane = std::make_integer_sequence<int, kVectorFloats>();
using VectorAnywhere [[gnu::vector_size(FM_VECTOR_BYTES), gnu::aligned(4)]] = float;

// Of `left` vectors side by side, those that the next panel takes: at most `most`; of four two and
// two, not three and one.
[[gnu::always_inline]] constexpr std::int64_t panel_vectors(std::int64_t left, std::int64_t most) {
  if (left <= most) return left;
  return most == 3 && left == 4 ? 2 : most;
}

[[gnu::always_inline]] inline Vector load(const float* from) {
  return *reinterpret_cast<const VectorAnywhere*>(from);
}

[[gnu::always_inline]] inline void store(Vector value, float* to) {
  *reinterpret_cast<VectorAnywhere*>(to) = value;
}

// The same number in every lane.
[[gnu::always_inline]] inline Vector splat(float value) { return value - Vector{}; }

// a b + c, rounded once.
[[gnu::always_inline]] inline Vector fused(Vector a, Vector b, Vector c) {
  Vector result = {};
  for (int lane = 0; lane < kVectorFloats; ++lane) {
    result[lane] = std::fma(a[lane], b[lane], c[lane]);
  }
  return result;
}

// The larger of two numbers in each lane; b where one is NaN.
[[gnu::always_inline]] inline Vector larger(Vector a, Vector b) { return a > b ? a : b; }

template <int Half, int... Lane>
[[gnu::always_inline]] inline Vector larger_half(Vector value,
                                                 std::integer_sequence<int, Lane...> lanes) {
  value = larger(value, __builtin_shufflevector(value, value, (Lane ^ Half)...));
  if constexpr (Half > 1) value = larger_half<Half / 2>(value, lanes);
  return value;
}

// The largest lane, in every lane.
[[gnu::always_inline]] inline Vector largest_lane(Vector value) {
  return larger_half<kVectorFloats / 2>(value, kEveryLane);
}

// 2^x for x <= 127: 0 below -126 (no subnormals), NaN for NaN. Polynomial of Cephes exp2f
// (S. Moshier); error below 2 ulp.
[[gnu::always_inline]] inline Vector exp2(Vector x) {
  using Bits [[gnu::vector_size(FM_VECTOR_BYTES)]] = std::uint32_t;
  const Vector low = splat(-126.0F);
  // 1.5 * 2^23 rounds to an integer when added; 127 makes the low bits a biased exponent.
  const Vector round = splat(12582912.0F + 127.0F);
  const Vector shifted = x + round;
  const Vector r = x - (shifted - round);
  Vector poly = splat(1.535336188319500e-4F);
  poly = fused(poly, r, splat(1.339887440266574e-3F));
  poly = fused(poly, r, splat(9.618437357674640e-3F));
  poly = fused(poly, r, splat(5.550332471162809e-2F));
  poly = fused(poly, r, splat(2.402264791363012e-1F));
  poly = fused(poly, r, splat(6.931472028550421e-1F));
  poly = fused(poly, r, splat(1.0F));
  const Vector scale = std::bit_cast<Vector>(std::bit_cast<Bits>(shifted) << 23);
  return x < low ? Vector{} : poly * scale;  // whatever the steps above made of such an x
}

}  // namespace fm::kernels::FM_SIMD
