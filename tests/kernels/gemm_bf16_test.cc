// Products of bf16 against fp64, by whatever multiplies them on this CPU and by what does on
// others.
#include <gtest/gtest.h>

#include <thread>

#include "kernels/amx.h"
#include "kernels/gemm_libraries.h"
#include "tests/kernels/bf16_values.h"

namespace fm::kernels {
namespace {

using core::Bf16;

constexpr Form kForms[] = {Form::kAsIs, Form::kTransposed};

struct Product {
  GemmShape shape;
  Form a_form = Form::kAsIs;
  Form b_form = Form::kAsIs;
  std::int64_t slack = 0;  // leading dimensions exceed the row length by this much

  std::int64_t a_width() const { return (a_form == Form::kAsIs ? shape.k : shape.m) + slack; }
  std::int64_t b_width() const { return (b_form == Form::kAsIs ? shape.n : shape.k) + slack; }
  std::int64_t c_width() const { return shape.n + slack; }
  Bf16s random_a() const {
    return random_bf16s(a_width() * (a_form == Form::kAsIs ? shape.m : shape.k), 1);
  }
  Bf16s random_b() const {
    return random_bf16s(b_width() * (b_form == Form::kAsIs ? shape.k : shape.n), 2);
  }
  Operand<Bf16> left(const Bf16s& a) const { return {a.data(), a_width(), a_form}; }
  Operand<Bf16> right(const Bf16s& b) const { return {b.data(), b_width(), b_form}; }
};

// Element (row, column) of op(X).
double element(const Operand<Bf16>& x, std::int64_t row, std::int64_t column) {
  return static_cast<double>(core::to_float(
      x.form == Form::kAsIs ? x.data[row * x.stride + column] : x.data[column * x.stride + row]));
}

double exact(const Operand<Bf16>& a, const Operand<Bf16>& b, std::int64_t row, std::int64_t column,
             std::int64_t k) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < k; ++i) sum += element(a, row, i) * element(b, i, column);
  return sum;
}

void public_gemm(const GemmShape& shape, const Operand<Bf16>& a, const Operand<Bf16>& b,
                 const Target<float>& c) {
  gemm(shape, a, b, c);
}

// Beta 0, then beta 1, into a target of fp32 and one of bf16, neither written beyond its rows.
void expect_product(const Product& p, Bf16Gemm* product) {
  const auto [m, n, k] = p.shape;
  const Bf16s a = p.random_a();
  const Bf16s b = p.random_b();
  Floats sums(static_cast<std::size_t>(p.c_width() * m), NAN);  // beta 0 must not read it
  product(p.shape, p.left(a), p.right(b), {sums.data(), p.c_width(), Beta::kZero});
  product(p.shape, p.left(a), p.right(b), {sums.data(), p.c_width(), Beta::kOne});
  const Bf16 nan = core::to_bf16(NAN);
  Bf16s rounded(sums.size(), nan);
  gemm(p.shape, p.left(a), p.right(b), {rounded.data(), p.c_width(), Beta::kZero});
  Bf16s added = rounded;
  gemm(p.shape, p.left(a), p.right(b), {added.data(), p.c_width(), Beta::kOne});
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
      const double fp32 = 3e-6 * std::sqrt(k) + 4e-7 * std::abs(wanted);
      ASSERT_NEAR(static_cast<double>(sums[at]), 2.0 * wanted, 2.0 * fp32)
          << m << " x " << n << " x " << k << " at " << row << ", " << column;
      const auto once = static_cast<double>(core::to_float(rounded[at]));
      ASSERT_NEAR(once, wanted, half_place(wanted) + fp32);
      ASSERT_NEAR(static_cast<double>(core::to_float(added[at])), once + wanted,
                  half_place(once + wanted) + fp32);
    }
  }
}

TEST(GemmBf16, EqualsThreeLoopsInAllFormsWithLeadingDimensions) {
  for (const GemmShape shape :
       {GemmShape{1, 1, 1}, GemmShape{7, 5, 3}, GemmShape{16, 33, 31}, GemmShape{32, 32, 32},
        GemmShape{1, 777, 96}, GemmShape{96, 33, 1}, GemmShape{70, 45, 1030},
        GemmShape{45, 70, 513}, GemmShape{300, 310, 520}, GemmShape{1100, 33, 65}}) {
    for (const Form a : kForms) {
      for (const Form b : kForms) {
        for (const std::int64_t slack : {0, 3}) expect_product({shape, a, b, slack}, public_gemm);
      }
    }
  }
}

TEST(GemmBf16, ByFp32EqualsThreeLoopsAcrossBlocks) {
  for (const GemmShape shape : {GemmShape{3, 520, 40}, GemmShape{530, 3, 1030}}) {
    for (const Form a : kForms) {
      for (const Form b : kForms) expect_product({shape, a, b, 3}, converted_gemm);
    }
  }
}

// Every partial sum is an integer below 2^24: exact in any order.
TEST(GemmBf16, OfIntegersIsExact) {
  const std::int64_t side = 64;
  const std::int64_t depth = 512;
  Floats a;
  Floats b;
  for (std::int64_t i = 0; i < side * depth; ++i) {
    a.push_back(static_cast<float>((i * 7 + i / 11) % 17 - 8));
    b.push_back(static_cast<float>((i * 5 + i / 13) % 17 - 8));
  }
  const Bf16s a16 = to_bf16s(a);
  const Bf16s b16 = to_bf16s(b);
  Floats got(static_cast<std::size_t>(side * side));
  gemm({side, side, depth}, {a16.data(), depth}, {b16.data(), side}, {got.data(), side});
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

}  // namespace
}  // namespace fm::kernels
