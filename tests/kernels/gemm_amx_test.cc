// Products on AMX against fp64, and against oneDNN's for their accuracy. Without AMX every case is
// skipped, and says so.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <thread>

#include "kernels/cpu.h"
#include "kernels/gemm/libraries.h"
#include "kernels/threads.h"
#include "tests/kernels/gemm_product.h"

namespace fm::kernels {
namespace {

using Product = RandomProduct<float>;

class Amx : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!amx_runs_here()) GTEST_SKIP() << "this CPU has no AMX";
  }
};

void expect_product(const Product& p) {
  const auto [m, n, k] = p.shape;
  const Floats a = p.random_a();
  const Floats b = p.random_b();
  Floats got(static_cast<std::size_t>(p.c_width() * m), NAN);  // beta 0 must not read it
  amx_gemm(p.shape, p.left(a), p.right(b), {got.data(), p.c_width(), Beta::kZero});
  amx_gemm(p.shape, p.left(a), p.right(b), {got.data(), p.c_width(), Beta::kOne});
  for (std::int64_t row = 0; row < m; ++row) {
    const float* c = got.data() + row * p.c_width();
    for (std::int64_t column = 0; column < n; ++column) {
      const double wanted = 2.0 * exact(p.left(a), p.right(b), row, column, k);
      ASSERT_NEAR(static_cast<double>(c[column]), wanted,
                  3e-6 * std::sqrt(k) + 4e-7 * std::abs(wanted))
          << m << " x " << n << " x " << k << " at " << row << ", " << column;
    }
    for (std::int64_t column = n; column < p.c_width(); ++column) {
      ASSERT_TRUE(std::isnan(c[column])) << "written beyond the row";
    }
  }
}

TEST_F(Amx, EqualsThreeLoopsAcrossStripsAndBlocks) {
  for (const GemmShape shape :
       {GemmShape{1, 1, 1}, GemmShape{16, 33, 31}, GemmShape{32, 32, 32}, GemmShape{70, 45, 1030},
        GemmShape{45, 70, 513}, GemmShape{280, 290, 40}, GemmShape{1100, 33, 65},
        GemmShape{300, 310, 520}}) {
    for (const Form a : kForms) {
      for (const Form b : kForms) {
        for (const std::int64_t slack : {0, 3}) expect_product({shape, a, b, slack});
      }
    }
  }
}

TEST_F(Amx, IsAtLeastAsAccurateAsOneDnn) {
  for (const std::int64_t k : {128, 512, 1376, 8192}) {
    for (const Form a_form : kForms) {
      const Product p{{48, 64, k}, a_form, Form::kTransposed};
      const Floats a = p.random_a();
      const Floats b = p.random_b();
      Floats own(48 * 64);
      Floats other(48 * 64);
      amx_gemm(p.shape, p.left(a), p.right(b), {own.data(), 64});
      onednn_gemm(p.shape, p.left(a), p.right(b), {other.data(), 64});
      EXPECT_LE(relative_rms(p, a, b, own), relative_rms(p, a, b, other)) << "k=" << k;
    }
  }
}

// Parts that were cut off instead of rounded would all have the sign of the number, and what is
// left out of a product would not cancel: 4e-8 of it on average.
TEST_F(Amx, WhatIsLeftOutCancels) {
  const Product p{{64, 64, 512}};
  Floats a = p.random_a();
  Floats b = p.random_b();
  for (Floats* values : {&a, &b}) {
    for (float& value : *values) value = std::abs(value);
  }
  Floats c(64 * 64);
  amx_gemm(p.shape, p.left(a), p.right(b), {c.data(), 64});
  double sum = 0.0;
  for (std::int64_t row = 0; row < 64; ++row) {
    for (std::int64_t column = 0; column < 64; ++column) {
      const double wanted = exact(p.left(a), p.right(b), row, column, 512);
      sum += static_cast<double>(c[static_cast<std::size_t>(row * 64 + column)]) / wanted - 1.0;
    }
  }
  EXPECT_LT(std::abs(sum / (64.0 * 64.0)), 1e-8);
}

// Every bit of a number survives its split: x times the identity is x.
TEST_F(Amx, TimesTheIdentityKeepsEveryBit) {
  Floats x = random_values(64 * 64, 3);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::ldexp(x[i], static_cast<int>(i % 200) - 90);
  Floats identity(64 * 64);
  for (std::size_t i = 0; i < 64; ++i) identity[i * 64 + i] = 1.0F;
  for (const Form form : kForms) {
    Floats from_left(x.size());
    Floats from_right(x.size());
    amx_gemm({64, 64, 64}, {x.data(), 64}, {identity.data(), 64, form}, {from_left.data(), 64});
    amx_gemm({64, 64, 64}, {identity.data(), 64, form}, {x.data(), 64}, {from_right.data(), 64});
    EXPECT_EQ(from_left, x);
    EXPECT_EQ(from_right, x);
  }
}

TEST_F(Amx, AnElementsBitsDependOnItsTermsAlone) {
  const Product p{{600, 90, 700}};
  const Floats a = p.random_a();
  const Floats b = p.random_b();
  const auto rows_of = [&](std::int64_t first, std::int64_t count, int threads) {
    Floats c(static_cast<std::size_t>(count * 90));
    std::thread([&] {
      set_kernel_threads(threads);
      amx_gemm({count, 90, 700}, {a.data() + first * 700, 700}, p.right(b), {c.data(), 90});
    }).join();
    return c;
  };
  const Floats whole = rows_of(0, 600, 1);
  EXPECT_EQ(rows_of(0, 600, 3), whole);
  const Floats part = rows_of(37, 60, 1);  // fewer rows than columns: the other operand is held
  for (std::size_t i = 0; i < part.size(); ++i) ASSERT_EQ(part[i], whole[37 * 90 + i]) << i;
}

TEST_F(Amx, WhatIsNotFiniteIsNotANumberInItsRow) {
  for (const std::uint32_t bits :
       {0x7F800000U, 0xFF800000U, 0x7FC00000U, 0x7FFFFFFFU, 0xFFFFFFFFU}) {
    expect_only_its_row_is_not_finite(std::bit_cast<float>(bits), false,
                                      [](const auto&... arguments) { amx_gemm(arguments...); });
  }
}

}  // namespace
}  // namespace fm::kernels
