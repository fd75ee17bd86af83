// Functions of fp32 whose loops vectorize, with the same bits in every instruction set (libm picks
// another variant by CPUID).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace fm::kernels {

// e^x in fp32 from basic operations only, so that every instruction set gives the same bits
// (libm's expf picks an FMA variant by CPUID) and the compiler can vectorize it.
// Cody-Waite reduction and the polynomial of Cephes expf (S. Moshier); error below 2 ulp.

// 0 below -87.3 (no subnormals), infinity above 88.7, NaN for NaN.
[[gnu::always_inline]] inline float exp_float(float x) {
  constexpr float kLow = -87.3365F;
  constexpr float kHigh = 88.7228F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  constexpr float kLog2E = 1.44269504088896341F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  float clamped = x < kLow ? kLow : x;
  clamped = clamped > kHigh ? kHigh : clamped;
  const float shifted = clamped * kLog2E + kRound;
  const float power = shifted - kRound;
  const float r = (clamped - power * kLn2High) - power * kLn2Low;
  float poly = 1.9875691500e-4F;
  poly = poly * r + 1.3981999507e-3F;
  poly = poly * r + 8.3334519073e-3F;
  poly = poly * r + 4.1665795894e-2F;
  poly = poly * r + 1.6666665459e-1F;
  poly = poly * r + 5.0000001201e-1F;
  poly = (poly * (r * r) + r) + 1.0F;
  // 2^power in two factors, because power reaches 128. Unsigned: NaN must not overflow.
  const std::uint32_t exponent =
      std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kRound);
  const std::uint32_t half = static_cast<std::uint32_t>(static_cast<std::int32_t>(exponent) >> 1);
  const float scale_a = std::bit_cast<float>((half + 127U) << 23);
  const float scale_b = std::bit_cast<float>((exponent - half + 127U) << 23);
  float result = poly * scale_a * scale_b;
  result = x < kLow ? 0.0F : result;
  return x > kHigh ? std::numeric_limits<float>::infinity() : result;
}

// log2(x) in fp32 from multiplies, adds and fused multiply-adds in a fixed order: the same bits in
// every instruction set, and loops over it vectorize.

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

// tanh(x) in fp32 from basic operations only; NaN for NaN. Cephes tanhf (S. Moshier): an odd
// polynomial near 0, else by e^(2 |x|); error below 2 ulp.
[[gnu::always_inline]] inline float tanh_float(float x) {
  const float size = x < 0.0F ? -x : x;
  const float far = 1.0F - 2.0F / (exp_float(2.0F * size) + 1.0F);
  const float square = x * x;
  float poly = -5.70498872745e-3F;
  poly = poly * square + 2.06390887954e-2F;
  poly = poly * square + -5.37397155531e-2F;
  poly = poly * square + 1.33314422036e-1F;
  poly = poly * square + -3.33332819422e-1F;
  const float near = x + x * (poly * square);
  const float signed_far = x < 0.0F ? -far : far;
  return size < 0.625F ? near : signed_far;
}

// erf(x) in fp32 from basic operations only. The rational approximation of Eigen
// (generic_fast_erf_float): odd over even polynomial on [-4, 4], where erf rounds to 1; error below
// 4e-7.
[[gnu::always_inline]] inline float erf_float(float x) {
  float clamped = x < -4.0F ? -4.0F : x;
  clamped = clamped > 4.0F ? 4.0F : clamped;
  const float square = clamped * clamped;
  float odd = -2.72614225801306e-10F;
  odd = odd * square + 2.77068142495902e-08F;
  odd = odd * square + -2.10102402082508e-06F;
  odd = odd * square + -5.69250639462346e-05F;
  odd = odd * square + -7.34990630326855e-04F;
  odd = odd * square + -2.95459980854025e-03F;
  odd = odd * square + -1.60960333262415e-02F;
  float even = -1.45660718464996e-05F;
  even = even * square + -2.13374055278905e-04F;
  even = even * square + -1.68282697438203e-03F;
  even = even * square + -7.37332916720468e-03F;
  even = even * square + -1.42647390514189e-02F;
  return clamped * odd / even;
}

}  // namespace fm::kernels
