// Dropout against its definition by core::philox, and its statistics.
#include "kernels/dropout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/philox.h"
#include "tests/kernels/dropout_mask.h"
#include "tests/kernels/variants_case.h"

namespace fm::kernels {
namespace {

constexpr Dropout kTenth = {.key = 0x123456789ABCDEF0U, .dropped = 429'496'730U, .scale = 1 / 0.9F};

TEST(Dropout, DropsTheNumbersThatPhiloxSays) {
  for (const std::uint64_t first : {0U, 1U, 63U, 64U, 100U}) {
    for (const std::int64_t count : {0, 1, 5, 63, 64, 65, 1000}) {
      const Floats before = values(count, 3, false);
      Floats x = before;
      dropout(core::Work(), kTenth, first, count, x.data());
      for (std::int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const bool stays = stays_in(kTenth, first + static_cast<std::uint64_t>(i));
        ASSERT_EQ(x[at], stays ? before[at] * kTenth.scale : 0.0F) << first << ' ' << i;
      }
    }
  }
}

TEST(Dropout, HasTheRateAndKeepsTheMean) {
  constexpr std::int64_t kCount = 1 << 20;
  Floats x(kCount, 1.0F);
  Floats other(kCount, 1.0F);
  dropout(core::Work(), kTenth, std::uint64_t{1} << 40, kCount, x.data());
  Dropout next = kTenth;
  ++next.key;
  dropout(core::Work(), next, std::uint64_t{1} << 40, kCount, other.data());
  double sum = 0.0;
  std::int64_t zeros = 0;
  std::int64_t both = 0;
  std::int64_t neighbours = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    sum += static_cast<double>(x[i]);
    zeros += x[i] == 0.0F ? 1 : 0;
    both += x[i] == 0.0F && other[i] == 0.0F ? 1 : 0;
    neighbours += i > 0 && x[i] == 0.0F && x[i - 1] == 0.0F ? 1 : 0;
  }
  const auto rate = [](std::int64_t count) { return static_cast<double>(count) / kCount; };
  const auto deviation = [](double p) { return std::sqrt(p * (1.0 - p) / kCount); };
  EXPECT_NEAR(rate(zeros), 0.1, 4.0 * deviation(0.1));
  EXPECT_NEAR(sum / kCount, 1.0, 4.0 * deviation(0.1) / 0.9);
  EXPECT_NEAR(rate(both), 0.01, 4.0 * deviation(0.01));  // keys are independent
  EXPECT_NEAR(rate(neighbours), 0.01, 5.0 * deviation(0.01));
}

TEST_P(Variants, DropoutOfEveryLength) {
  expect_as_baseline([&](const Variant& variant) {
    Floats x = values(size(), 1);
    variant.fp32.dropout(kTenth, 37, size(), x.data());
    return x;
  });
}

}  // namespace
}  // namespace fm::kernels
