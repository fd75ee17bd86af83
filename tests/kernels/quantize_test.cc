// Blocks of 8 and 4 bits: whole numbers against integer arithmetic, and the bound of the error.
#include "kernels/pointwise/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/element.h"
#include "tests/kernels/variants_case.h"

namespace fm::kernels {
namespace {

std::vector<float> through8(const std::vector<float>& x) {
  const auto count = std::ssize(x);
  std::vector<float> scales(static_cast<std::size_t>(quant_blocks(count)));
  std::vector<std::int8_t> q(x.size());
  std::vector<float> out(x.size());
  quantize8(count, x.data(), scales.data(), q.data());
  dequantize8(count, scales.data(), q.data(), out.data());
  return out;
}

std::vector<float> through4(const std::vector<float>& x) {
  const auto count = std::ssize(x);
  std::vector<float> scales(static_cast<std::size_t>(quant_blocks(count)));
  std::vector<std::uint8_t> q((x.size() + 1) / 2);
  std::vector<float> out(x.size());
  quantize4(count, x.data(), scales.data(), q.data());
  dequantize4(count, scales.data(), q.data(), out.data());
  return out;
}

// numerator / denominator to the nearest whole number, ties to even.
int nearest_whole(int numerator, int denominator) {
  const int below = static_cast<int>(std::floor(double{1} * numerator / denominator));
  const int twice = 2 * (numerator - below * denominator);
  if (twice != denominator) return twice < denominator ? below : below + 1;
  return below % 2 == 0 ? below : below + 1;
}

// Eighths of the step, all from one end to the other; every block holds the largest.
void expect_nearest(int most, std::vector<float> (*through)(const std::vector<float>&)) {
  std::vector<int> eighths;
  for (int i = -8 * most; i <= 8 * most; ++i) {
    if (std::ssize(eighths) % kQuantBlock == 0) eighths.push_back(8 * most);
    eighths.push_back(i);
  }
  for (const float unit : {1.0F, 0x1p-40F, 0x1p60F}) {
    std::vector<float> x;
    for (const int eighth : eighths) x.push_back(static_cast<float>(eighth) / 8.0F * unit);
    const std::vector<float> got = through(x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(got[i], static_cast<float>(nearest_whole(eighths[i], 8)) * unit)
          << eighths[i] << "/8 of " << unit;
    }
  }
}

TEST(Quantize, EightBitsHoldTheNearestOf255Numbers) { expect_nearest(kMost8, through8); }
TEST(Quantize, FourBitsHoldTheNearestOf15Numbers) { expect_nearest(kMost4, through4); }

// Half a step, and what fp32 rounds: the scale, its inverse, and two products.
void expect_bound(double most, std::vector<float> (*through)(const std::vector<float>&)) {
  for (const std::int64_t count : {1, 2, 3, 511, 512, 513, 1025, 4096}) {
    const std::vector<float> x = values(count, static_cast<unsigned>(count), false);
    const std::vector<float> got = through(x);
    for (std::int64_t at = 0; at < count; at += kQuantBlock) {
      const std::int64_t last = std::min(count, at + kQuantBlock);
      double largest = 0.0;
      for (std::int64_t i = at; i < last; ++i)
        largest = std::max(largest, std::abs(double{x[static_cast<std::size_t>(i)]}));
      const double bound = largest / (2.0 * most) + largest * 0x1p-21;
      for (std::int64_t i = at; i < last; ++i) {
        const auto index = static_cast<std::size_t>(i);
        ASSERT_LE(std::abs(double{got[index]} - double{x[index]}), bound) << i << " of " << count;
      }
    }
  }
}

TEST(Quantize, AnErrorIsAtMostHalfAStepOfItsBlock) {
  expect_bound(kMost8, through8);
  expect_bound(kMost4, through4);
}

TEST(Quantize, WhatIsNotFiniteMakesItsBlockNaNAndNoOther) {
  for (const float bad : {std::nanf(""), -std::nanf(""), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const auto& through : {through8, through4}) {
      std::vector<float> x(3 * kQuantBlock - 5, 1.0F);
      x[kQuantBlock + 3] = bad;
      const std::vector<float> got = through(x);
      for (std::int64_t i = 0; i < std::ssize(x); ++i) {
        const bool there = i / kQuantBlock == 1;
        EXPECT_EQ(std::isnan(got[static_cast<std::size_t>(i)]), there) << i;
      }
      EXPECT_EQ(got.front(), 1.0F);
      EXPECT_EQ(got.back(), 1.0F);
    }
  }
}

TEST(Quantize, ZerosStayZerosAndSoDoesWhatIsTooSmallForAScale) {
  const std::vector<float> x = {0.0F, -0.0F, 1e-42F, -0x1p-101F};
  for (const auto& through : {through8, through4}) {
    for (const float got : through(x)) EXPECT_EQ(got, 0.0F);
  }
}

TEST(Quantize, BlocksOfNarrowTypesAreThoseOfTheirNumbersInFp32) {
  std::vector<core::Bf16> bf16;
  std::vector<core::F16> fp16;
  std::vector<float> of_bf16, of_fp16;
  for (const float value : values(1000, 7, false)) {
    bf16.push_back(core::to_bf16(value));
    of_bf16.push_back(core::to_float(bf16.back()));
    fp16.push_back(core::to_f16(value));
    of_fp16.push_back(core::to_float(fp16.back()));
  }
  const auto expect = [](const auto& narrow, const std::vector<float>& wide) {
    std::vector<float> scales(2);
    std::vector<std::int8_t> q(narrow.size());
    auto out = narrow;
    quantize8(std::ssize(narrow), narrow.data(), scales.data(), q.data());
    dequantize8(std::ssize(narrow), scales.data(), q.data(), out.data());
    const std::vector<float> expected = through8(wide);
    using T = typename std::decay_t<decltype(narrow)>::value_type;
    for (std::size_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(out[i].bits, core::to_element<T>(expected[i]).bits) << i;
    }
  };
  expect(bf16, of_bf16);
  expect(fp16, of_fp16);
}

TEST_P(Variants, Quantize) {
  expect_as_baseline([&](const Variant& variant) {
    const auto blocks = static_cast<std::size_t>(quant_blocks(size()));
    Floats out;
    for (const bool special : {false, true}) {
      const Floats x = values(size(), 11, special);
      Floats back(x.size()), scales(blocks);
      std::vector<std::int8_t> q8(x.size());
      std::vector<std::uint8_t> q4((x.size() + 1) / 2);
      variant.parts.fp32.quantize8(size(), x.data(), scales.data(), q8.data());
      variant.parts.fp32.dequantize8(size(), scales.data(), q8.data(), back.data());
      append(out, scales);
      append(out, back);
      variant.quantize4(size(), x.data(), scales.data(), q4.data());
      variant.dequantize4(size(), scales.data(), q4.data(), back.data());
      append(out, scales);
      append(out, back);
      append(out, Floats(q4.begin(), q4.end()));
    }
    return out;
  });
}

}  // namespace
}  // namespace fm::kernels
