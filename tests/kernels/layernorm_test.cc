#include "kernels/pointwise/layernorm.h"

#include <gtest/gtest.h>

#include "tests/kernels/narrow_values.h"

namespace fm::kernels {
namespace {

constexpr double kEps = 1e-5;
constexpr std::size_t kRows = 5;

struct Case {
  std::size_t width = 0;
  Floats x, w, b, dy, residual;
  RowShape shape() const { return {kRows, static_cast<std::int64_t>(width)}; }
};

// Rows that lie far from zero: a mean that is not taken off first would show.
Case make_case(std::int64_t width) {
  const auto count = static_cast<std::int64_t>(kRows) * width;
  Case c{static_cast<std::size_t>(width), random_values(count, 1, 3.0F), random_values(width, 2),
         random_values(width, 3),         random_values(count, 4),       random_values(count, 5)};
  for (float& value : c.x) value += 20.0F;
  return c;
}

// In fp64: the normed row before weight and bias.
Doubles normed(const Case& c, const Doubles& x) {
  double mean = 0.0;
  for (const double value : x) mean += value / static_cast<double>(c.width);
  double variance = 0.0;
  for (const double value : x) variance += (value - mean) * (value - mean);
  const double rstd = 1.0 / std::sqrt(variance / static_cast<double>(c.width) + kEps);
  Doubles out;
  for (const double value : x) out.push_back((value - mean) * rstd);
  return out;
}

Doubles row_of(const Case& c, std::size_t row) {
  const auto from = c.x.begin() + static_cast<std::ptrdiff_t>(row * c.width);
  return {from, from + static_cast<std::ptrdiff_t>(c.width)};
}

// Sum of dy times the output.
double value_of(const Case& c, std::size_t row, const Doubles& x) {
  const Doubles n = normed(c, x);
  double sum = 0.0;
  for (std::size_t i = 0; i < c.width; ++i) {
    sum += double{c.dy[row * c.width + i]} * (n[i] * double{c.w[i]} + double{c.b[i]});
  }
  return sum;
}

class Layernorm : public testing::TestWithParam<std::int64_t> {};

TEST_P(Layernorm, ForwardEqualsTheFormulaInDouble) {
  const Case c = make_case(GetParam());
  Floats mean(kRows);
  Floats rstd(kRows);
  Floats y(c.x.size());
  layernorm_statistics(core::Work(), c.shape(), c.x.data(), kEps, mean.data(), rstd.data());
  layernorm_apply<float>(core::Work(), c.shape(),
                         {c.x.data(), c.w.data(), c.b.data(), mean.data(), rstd.data(), y.data()});
  Doubles expected;
  for (std::size_t row = 0; row < kRows; ++row) {
    const Doubles n = normed(c, row_of(c, row));
    for (std::size_t i = 0; i < c.width; ++i) {
      expected.push_back(n[i] * double{c.w[i]} + double{c.b[i]});
    }
  }
  EXPECT_LT(difference(expected, y), 3e-6);
  // Without a bias.
  layernorm_apply<float>(core::Work(), c.shape(),
                         {c.x.data(), c.w.data(), nullptr, mean.data(), rstd.data(), y.data()});
  for (std::size_t i = 0; i < y.size(); ++i) expected[i] -= double{c.b[i % c.width]};
  EXPECT_LT(difference(expected, y), 3e-6);
}

TEST_P(Layernorm, BackwardEqualsFiniteDifferencesAndAddsToItsSums) {
  const Case c = make_case(GetParam());
  Floats mean(kRows);
  Floats rstd(kRows);
  layernorm_statistics(core::Work(), c.shape(), c.x.data(), kEps, mean.data(), rstd.data());
  Floats dx(c.x.size());
  Floats dw(c.width, 0.5F);
  Floats db(c.width, 0.25F);
  LayernormBackward<float> at{.x = c.x.data(),
                              .weight = c.w.data(),
                              .mean = mean.data(),
                              .rstd = rstd.data(),
                              .dy = c.dy.data(),
                              .residual = c.residual.data(),
                              .dx = dx.data(),
                              .dweight_sum = dw.data(),
                              .dbias_sum = db.data()};
  layernorm_backward(core::Work(), c.shape(), at);
  Doubles expected_dx;
  Doubles expected_dw(c.width, 0.5);
  Doubles expected_db(c.width, 0.25);
  constexpr double kStep = 1e-5;
  for (std::size_t row = 0; row < kRows; ++row) {
    Doubles x = row_of(c, row);
    const Doubles n = normed(c, x);
    for (std::size_t i = 0; i < c.width; ++i) {
      const double dy = c.dy[row * c.width + i];
      expected_dw[i] += dy * n[i];
      expected_db[i] += dy;
      const double center = x[i];
      x[i] = center + kStep;
      const double above = value_of(c, row, x);
      x[i] = center - kStep;
      const double below = value_of(c, row, x);
      x[i] = center;
      expected_dx.push_back((above - below) / (2 * kStep) + double{c.residual[row * c.width + i]});
    }
  }
  EXPECT_LT(difference(expected_dx, dx), 5e-6);
  EXPECT_LT(difference(expected_dw, dw), 3e-6);
  EXPECT_LT(difference(expected_db, db), 1e-6);

  Floats in_place = c.x;
  at.x = in_place.data();
  at.dx = in_place.data();
  layernorm_backward(core::Work(), c.shape(), at);
  EXPECT_EQ(in_place, dx);

  Floats unbiased(c.x.size());
  Floats unbiased_dw(c.width, 0.5F);
  at = {.x = c.x.data(),
        .weight = c.w.data(),
        .mean = mean.data(),
        .rstd = rstd.data(),
        .dy = c.dy.data(),
        .residual = c.residual.data(),
        .dx = unbiased.data(),
        .dweight_sum = unbiased_dw.data()};
  layernorm_backward(core::Work(), c.shape(), at);
  EXPECT_EQ(unbiased, dx);
  EXPECT_LT(difference(expected_dw, unbiased_dw), 3e-6);
}

INSTANTIATE_TEST_SUITE_P(Widths, Layernorm, testing::Values(7, 50, 96, 250));

}  // namespace
}  // namespace fm::kernels
