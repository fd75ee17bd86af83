// log2(x) in fp32 from multiplies, adds and fused multiply-adds in a fixed order: the same bits in
// every instruction set, and loops over it vectorize.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace fm::kernels {

// For normal x > 0, and NaN for NaN. Polynomial of Cephes logf; error below 1e-7 (1 + |result|).
[[gnu::always_inline]] inline float log2_float(float x) {
  constexpr float kLog2E = 1.44269504088896341F;
  constexpr std::uint32_t kRootHalf = 0x3f3504f3U;  // sqrt(1/2): the mantissa lies in it .. 2 it
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) - kRootHalf;
  const float power = static_cast<float>(static_cast<std::int32_t>(bits) >> 23);
  const float f = std::bit_cast<float>((bits & 0x007fffffU) + kRootHalf) - 1.0F;
  float poly = 7.0376836292e-2F;
  poly = std::fma(poly, f, -1.1514610310e-1F);
  poly = std::fma(poly, f, 1.1676998740e-1F);
  poly = std::fma(poly, f, -1.2420140846e-1F);
  poly = std::fma(poly, f, 1.4249322787e-1F);
  poly = std::fma(poly, f, -1.6668057665e-1F);
  poly = std::fma(poly, f, 2.0000714765e-1F);
  poly = std::fma(poly, f, -2.4999993993e-1F);
  poly = std::fma(poly, f, 3.3333331174e-1F);
  const float square = f * f;
  const float natural = std::fma(square, std::fma(poly, f, -0.5F), f);
  const float result = std::fma(natural, kLog2E, power);
  return x == x ? result : x;
}

}  // namespace fm::kernels
