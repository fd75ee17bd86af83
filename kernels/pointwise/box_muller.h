// The functions that Box and Muller's normal numbers need, in fp64 from basic operations in a fixed
// order, so that loops over them vectorize. Reductions and coefficients of fdlibm (e_log.c,
// k_sin.c, k_cos.c; Sun Microsystems, 1993); relative error below 2^-50.
#pragma once

#include <bit>
#include <cstdint>

namespace fm::kernels {

// ln((k + 1) / 2^24) of the k in the upper 24 bits of a random word: core::uniform_of's argument.
[[gnu::always_inline]] inline double log_of_uniform(std::uint32_t word) {
  constexpr std::uint64_t kRootHalf = 0x3FE6A09E00000000U;  // sqrt(1/2): the mantissa's least
  constexpr std::uint64_t kMantissa = 0x000FFFFFFFFFFFFFU;
  constexpr std::uint64_t kTwoTo52 = 0x4330000000000000U;  // or-ed with n it is 2^52 + n
  constexpr double kLn2High = 6.93147180369123816490e-01;
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  const double x = static_cast<double>(static_cast<std::int32_t>(word >> 8) + 1);
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x) - kRootHalf;
  const double power = std::bit_cast<double>((bits >> 52) | kTwoTo52) - (0x1p52 + 24.0);
  const double f = std::bit_cast<double>((bits & kMantissa) + kRootHalf) - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  double poly = 1.479819860511658591e-01;
  poly = poly * z + 1.531383769920937332e-01;
  poly = poly * z + 1.818357216161805012e-01;
  poly = poly * z + 2.222219843214978396e-01;
  poly = poly * z + 2.857142874366239149e-01;
  poly = poly * z + 3.999999999940941908e-01;
  poly = poly * z + 6.666666666666735130e-01;
  const double half_square = 0.5 * f * f;
  const double low = s * (half_square + poly * z) + power * kLn2Low;
  return power * kLn2High - ((half_square - low) - f);
}

struct CosSin {
  double cos = 0.0;
  double sin = 0.0;
  double to_axis = 0.0;  // distance from the nearest multiple of pi / 2
};

// For 0 <= angle <= 2 pi. Without meaning at the axes: to_axis must be larger than 1e-8.
[[gnu::always_inline]] inline CosSin cos_sin(double angle) {
  constexpr double kRound = 0x1.8p52;                          // rounds to an integer when added
  constexpr double kPerQuarter = 6.36619772367581382433e-01;   // 2 / pi
  constexpr double kQuarterHigh = 1.57079632673412561417e+00;  // 33 bits of pi / 2
  constexpr double kQuarterLow = 6.07710050650619224932e-11;   // the rest
  const double shifted = angle * kPerQuarter + kRound;
  const double quarters = shifted - kRound;
  const double r = (angle - quarters * kQuarterHigh) - quarters * kQuarterLow;
  const double z = r * r;
  double odd = 1.58969099521155010221e-10;
  odd = odd * z - 2.50507602534068634195e-08;
  odd = odd * z + 2.75573137070700676789e-06;
  odd = odd * z - 1.98412698298579493134e-04;
  odd = odd * z + 8.33333333332248946124e-03;
  odd = odd * z - 1.66666666666666324348e-01;
  double even = -1.13596475577881948265e-11;
  even = even * z + 2.08757232129817482790e-09;
  even = even * z - 2.75573143513906633035e-07;
  even = even * z + 2.48015872894767294178e-05;
  even = even * z - 1.38888888888741095749e-03;
  even = even * z + 4.16666666666666019037e-02;
  const double sin_r = r + z * r * odd;
  const double half = 0.5 * z;
  const double rest = 1.0 - half;
  const double cos_r = rest + (((1.0 - rest) - half) + z * z * even);
  const std::uint64_t quarter = std::bit_cast<std::uint64_t>(shifted);
  const bool swapped = (quarter & 1U) != 0;
  const double cosine = swapped ? sin_r : cos_r;
  const double sine = swapped ? cos_r : sin_r;
  // Signs of the quarters: cos + - - +, sin + + - -.
  const std::uint64_t cos_sign = ((quarter + 1U) & 2U) << 62;
  const std::uint64_t sin_sign = (quarter & 2U) << 62;
  const double distance = r < 0.0 ? -r : r;
  return {std::bit_cast<double>(std::bit_cast<std::uint64_t>(cosine) ^ cos_sign),
          std::bit_cast<double>(std::bit_cast<std::uint64_t>(sine) ^ sin_sign), distance};
}

}  // namespace fm::kernels
