// What tests of instruction sets share: values of every kind, and the comparison with the baseline.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "kernels/variants/variant.h"
#include "tests/kernels/narrow_values.h"

namespace fm::kernels {

// Mostly moderate numbers; one in sixteen is special.
inline Floats values(std::int64_t count, unsigned seed, bool special = true) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float specials[] = {0.0F,      -0.0F,      1e-42F,        -1e-42F, 1e30F,  -1e30F,
                            kInfinity, -kInfinity, std::nanf(""), 88.8F,   -87.4F, 3e38F};
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 3.0F);
  Floats out(static_cast<std::size_t>(count));
  for (float& value : out) {
    value = normal(random);
    if (special && random() % 16 == 0) value = specials[random() % std::size(specials)];
  }
  return out;
}

inline Floats positive(std::int64_t count, unsigned seed) {
  Floats out = values(count, seed, false);
  for (float& value : out) value = std::abs(value) + 0.01F;
  return out;
}

inline void append(Floats& out, const Floats& more) {
  out.insert(out.end(), more.begin(), more.end());
}

// NaN is NaN: which one is the processor's affair.
template <class T>
void expect_same_bits(const std::vector<T>& got, const std::vector<T>& expected) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(got[i])) continue;
    ASSERT_EQ(std::bit_cast<Bits>(got[i]), std::bit_cast<Bits>(expected[i]))
        << "element " << i << ": " << got[i] << ", baseline " << expected[i];
  }
}

class Variants : public testing::TestWithParam<std::int64_t> {
 protected:
  using Run = std::function<Floats(const Variant&)>;

  std::int64_t size() const { return GetParam(); }
  static void expect_as_baseline(const Run& run) {
    const Floats expected = run(*candidates()[0].variant);
    for (const auto& [variant, runs_here] : candidates().subspan(1)) {
      if (!runs_here()) continue;
      SCOPED_TRACE(variant->name);
      expect_same_bits(run(*variant), expected);
    }
  }
};

}  // namespace fm::kernels
