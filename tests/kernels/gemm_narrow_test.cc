// Products of bf16 against fp64, by whatever multiplies them on this CPU and by what does on
// others.
#include <gtest/gtest.h>

#include <thread>

#include "kernels/cpu.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/libraries.h"
#include "kernels/threads.h"
#include "tests/kernels/gemm_product.h"
#include "tests/kernels/narrow_values.h"

namespace fm::kernels {
namespace {

using core::Bf16;
using Product = RandomProduct<Bf16>;

template <class T>
void public_gemm(const GemmShape& shape, const Operand<T>& a, const Operand<T>& b,
                 const Target<float>& c) {
  gemm({}, shape, a, b, c);
}

// Beta 0, then beta 1, into a target of fp32 and one of bf16, neither written beyond its rows.
template <class T>
void expect_product(const RandomProduct<T>& p, Gemm<T>* product) {
  const auto [m, n, k] = p.shape;
  const Narrows<T> a = p.random_a();
  const Narrows<T> b = p.random_b();
  Floats sums(static_cast<std::size_t>(p.c_width() * m), NAN);  // beta 0 must not read it
  product(p.shape, p.left(a), p.right(b), {sums.data(), p.c_width(), Beta::kZero});
  product(p.shape, p.left(a), p.right(b), {sums.data(), p.c_width(), Beta::kOne});
  const T nan = core::to_element<T>(NAN);
  Narrows<T> rounded(sums.size(), nan);
  gemm({}, p.shape, p.left(a), p.right(b), {rounded.data(), p.c_width(), Beta::kZero});
  Narrows<T> added = rounded;
  gemm({}, p.shape, p.left(a), p.right(b), {added.data(), p.c_width(), Beta::kOne});
  for (std::int64_t row = 0; row < m; ++row) {
    for (std::int64_t column = 0; column < p.c_width(); ++column) {
      const auto at = static_cast<std::size_t>(row * p.c_width() + column);
      if (column >= n) {
        ASSERT_TRUE(std::isnan(sums[at])) << "written beyond the row";
        ASSERT_EQ(rounded[at].bits, nan.bits) << "written beyond the row";
        ASSERT_EQ(added[at].bits, nan.bits) << "written beyond the row";
        continue;
      }
      const double wanted = exact(p.left(a), p.right(b), row, column, k);
      // Products of bf16 are exact in fp32, those of fp16 nearly fill it.
      const double each = std::is_same_v<T, Bf16> ? 3e-6 : 6e-6;
      const double fp32 = each * std::sqrt(k) + 4e-7 * std::abs(wanted);
      ASSERT_NEAR(static_cast<double>(sums[at]), 2.0 * wanted, 2.0 * fp32)
          << m << " x " << n << " x " << k << " at " << row << ", " << column;
      const auto once = static_cast<double>(core::to_float(rounded[at]));
      ASSERT_NEAR(once, wanted, half_place<T>(wanted) + fp32);
      ASSERT_NEAR(static_cast<double>(core::to_float(added[at])), once + wanted,
                  half_place<T>(once + wanted) + fp32);
    }
  }
}

template <class T>
class GemmNarrow : public testing::Test {};
TYPED_TEST_SUITE(GemmNarrow, NarrowTypes);

TYPED_TEST(GemmNarrow, EqualsThreeLoopsInAllFormsWithLeadingDimensions) {
  using T = TypeParam;
  for (const GemmShape shape :
       {GemmShape{1, 1, 1}, GemmShape{7, 5, 3}, GemmShape{16, 33, 31}, GemmShape{32, 32, 32},
        GemmShape{1, 777, 96}, GemmShape{96, 33, 1}, GemmShape{70, 45, 1030},
        GemmShape{45, 70, 513}, GemmShape{300, 310, 520}, GemmShape{1100, 33, 65}}) {
    for (const Form a : kForms) {
      for (const Form b : kForms) {
        for (const std::int64_t slack : {0, 3})
          expect_product<T>({shape, a, b, slack}, public_gemm<T>);
      }
    }
  }
}

TYPED_TEST(GemmNarrow, ByFp32EqualsThreeLoopsAcrossBlocks) {
  using T = TypeParam;
  for (const GemmShape shape : {GemmShape{3, 520, 40}, GemmShape{530, 3, 1030}}) {
    for (const Form a : kForms) {
      for (const Form b : kForms) expect_product<T>({shape, a, b, 3}, converted_gemm<T>);
    }
  }
}

void amx_product(const GemmShape& shape, const Operand<Bf16>& a, const Operand<Bf16>& b,
                 const Target<float>& c) {
  amx_gemm(shape, a, b, c);
}

TEST(GemmBf16, ByAmxEqualsThreeLoopsAcrossStripsAndBlocks) {
  if (!amx_runs_here()) GTEST_SKIP() << "this CPU has no AMX";
  for (const GemmShape shape : {GemmShape{1, 1, 1}, GemmShape{16, 33, 31}, GemmShape{280, 290, 40},
                                GemmShape{33, 40, 4130}, GemmShape{600, 580, 1000}}) {
    for (const Form a : kForms) {
      for (const Form b : kForms) expect_product<Bf16>({shape, a, b, 3}, amx_product);
    }
  }
}

TEST(GemmBf16, ByOneDnnEqualsThreeLoops) {
  if (!onednn_has_bf16()) GTEST_SKIP() << "this CPU has no AVX512_BF16";
  for (const Form a : kForms) {
    for (const Form b : kForms) expect_product<Bf16>({{70, 45, 1030}, a, b, 3}, onednn_gemm);
  }
}

// Every partial sum is an integer below 2^24: exact in any order.
TYPED_TEST(GemmNarrow, OfIntegersIsExact) {
  using T = TypeParam;
  const std::int64_t side = 64;
  const std::int64_t depth = 512;
  Floats a;
  Floats b;
  for (std::int64_t i = 0; i < side * depth; ++i) {
    a.push_back(static_cast<float>((i * 7 + i / 11) % 17 - 8));
    b.push_back(static_cast<float>((i * 5 + i / 13) % 17 - 8));
  }
  const Narrows<T> a16 = narrowed<T>(a);
  const Narrows<T> b16 = narrowed<T>(b);
  Floats got(static_cast<std::size_t>(side * side));
  gemm({}, {side, side, depth}, {a16.data(), depth}, {b16.data(), side}, {got.data(), side});
  for (std::int64_t row = 0; row < side; ++row) {
    for (std::int64_t column = 0; column < side; ++column) {
      std::int64_t sum = 0;
      for (std::int64_t i = 0; i < depth; ++i) {
        sum += static_cast<std::int64_t>(a[static_cast<std::size_t>(row * depth + i)]) *
               static_cast<std::int64_t>(b[static_cast<std::size_t>(i * side + column)]);
      }
      ASSERT_EQ(got[static_cast<std::size_t>(row * side + column)], static_cast<float>(sum));
    }
  }
}

// One fp32 sum per term, in order of k.
Floats chains(const Product& p, const Narrows<Bf16>& a, const Narrows<Bf16>& b) {
  Floats c;
  for (std::int64_t row = 0; row < p.shape.m; ++row) {
    for (std::int64_t column = 0; column < p.shape.n; ++column) {
      float sum = 0.0F;
      for (std::int64_t i = 0; i < p.shape.k; ++i) {
        sum += static_cast<float>(element(p.left(a), row, i) * element(p.right(b), i, column));
      }
      c.push_back(sum);
    }
  }
  return c;
}

// At least: AVX512_BF16 rounds as often as the chain does, in another order. The root mean square
// of 3,072 errors is known to 1.3 % (one over the root of twice their number): four times that are
// allowed there.
TEST(GemmBf16, IsAsAccurateAsAChainOfFp32) {
  const GemmKind kind = chosen_gemm();
  const bool by_avx512_bf16 =
      kind != GemmKind::kAmx && kind != GemmKind::kPacked && onednn_has_bf16();
  const double allowed = by_avx512_bf16 ? 1.052 : 1.0;
  for (const std::int64_t k : {128, 512, 1376, 8192}) {
    const Product p{{48, 64, k}, Form::kAsIs, Form::kTransposed};
    const Narrows<Bf16> a = p.random_a();
    const Narrows<Bf16> b = p.random_b();
    Floats got(48 * 64);
    gemm({}, p.shape, p.left(a), p.right(b), {got.data(), 64});
    EXPECT_LE(relative_rms(p, a, b, got), allowed * relative_rms(p, a, b, chains(p, a, b)))
        << "k=" << k;
  }
}

TEST(GemmBf16, ByAmxAnElementsBitsDependOnItsTermsAlone) {
  if (!amx_runs_here()) GTEST_SKIP() << "this CPU has no AMX";
  const Product p{{600, 90, 2300}};
  const Narrows<Bf16> a = p.random_a();
  const Narrows<Bf16> b = p.random_b();
  const auto rows_of = [&](std::int64_t first, std::int64_t count, int threads) {
    Floats c(static_cast<std::size_t>(count * 90), 1.0F);
    std::thread([&] {
      set_kernel_threads(threads);
      amx_gemm({count, 90, 2300}, {a.data() + first * 2300, 2300}, p.right(b),
               Target<float>{c.data(), 90, Beta::kOne});
    }).join();
    return c;
  };
  const Floats whole = rows_of(0, 600, 1);
  EXPECT_EQ(rows_of(0, 600, 3), whole);
  const Floats part = rows_of(37, 60, 1);  // fewer rows than columns: the other operand is held
  for (std::size_t i = 0; i < part.size(); ++i) ASSERT_EQ(part[i], whole[37 * 90 + i]) << i;
}

// A target of bf16 is the one of fp32 rounded once, in one block of terms and in several.
TYPED_TEST(GemmNarrow, ARoundedTargetIsTheFp32OneRounded) {
  using T = TypeParam;
  for (const std::int64_t k : {40, 512, 2048, 2300}) {
    const RandomProduct<T> p{{70, 90, k}, Form::kTransposed, Form::kTransposed};
    const Narrows<T> a = p.random_a();
    const Narrows<T> b = p.random_b();
    Floats sums = random_values(70 * 90, 3);
    Narrows<T> rounded = narrowed<T>(sums);
    sums = to_floats(rounded);
    gemm({}, p.shape, p.left(a), p.right(b), {sums.data(), 90, Beta::kOne});
    gemm({}, p.shape, p.left(a), p.right(b), {rounded.data(), 90, Beta::kOne});
    const Narrows<T> expected = narrowed<T>(sums);
    for (std::size_t i = 0; i < rounded.size(); ++i) {
      ASSERT_EQ(rounded[i].bits, expected[i].bits) << "k=" << k << ", element " << i;
    }
  }
}

TEST(GemmBf16, WhatIsNotFiniteStaysSo) {
  for (const unsigned bits : {0x7F80U, 0xFF80U, 0x7FC0U, 0x7F81U, 0xFFFFU}) {
    const Bf16 bad{static_cast<std::uint16_t>(bits)};
    expect_only_its_row_is_not_finite(
        bad, std::isinf(core::to_float(bad)),
        [](const auto&... arguments) { gemm(core::Work{}, arguments...); });
  }
}

TEST(GemmNarrowNames, TellTheirLibraries) {
  const std::string bf16 = gemm_library(core::DType::kBF16);
  const std::string fp16 = gemm_library(core::DType::kF16);
  const GemmKind kind = chosen_gemm();
  const bool packed = kind == GemmKind::kPacked;
  const bool amx = kind == GemmKind::kAmx;
  EXPECT_EQ(bf16.starts_with("AMX (bf16), small products by "), amx) << bf16;
  EXPECT_EQ(fp16.starts_with("fp16 as fp32 by AMX"), amx) << fp16;
  for (const std::string& name : {bf16, fp16}) {
    EXPECT_EQ(name.starts_with("packed panels (avx2) of fp32, small products by "), packed) << name;
  }
  EXPECT_TRUE(bf16.ends_with(onednn_name())) << bf16;
  EXPECT_EQ(gemm_is_fast(core::DType::kBF16), amx || packed || onednn_has_bf16());
  EXPECT_EQ(gemm_is_fast(core::DType::kF16), packed);
}

}  // namespace
}  // namespace fm::kernels
