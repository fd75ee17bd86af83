#include "kernels/pointwise/rmsnorm.h"

#include <gtest/gtest.h>

#include "tests/kernels/random_values.h"

namespace fm::kernels {
namespace {

constexpr double kEps = 1e-5;

struct Case {
  RowShape shape;
  Floats x, w, dy, residual;
  std::size_t width() const { return static_cast<std::size_t>(shape.width); }
  std::size_t rows() const { return static_cast<std::size_t>(shape.rows); }
};

Case make_case(RowShape shape) {
  const std::int64_t count = shape.rows * shape.width;
  return {shape, random_values(count, 1, 3.0F), random_values(shape.width, 2),
          random_values(count, 3), random_values(count, 4)};
}

// Value of one row in fp64: sum of dy * norm(x).
double row_value(const Case& c, std::size_t row, const Doubles& x, const Doubles& w) {
  double squares = 0.0;
  for (std::size_t i = 0; i < c.width(); ++i) squares += x[i] * x[i];
  const double rstd = 1.0 / std::sqrt(squares / static_cast<double>(c.width()) + kEps);
  double value = 0.0;
  for (std::size_t i = 0; i < c.width(); ++i) {
    value += static_cast<double>(c.dy[row * c.width() + i]) * w[i] * x[i] * rstd;
  }
  return value;
}

// Central difference of row_value by element `i` of `moved` (x or w).
double slope(const Case& c, std::size_t row, std::size_t i, bool by_weight) {
  const auto from = c.x.begin() + static_cast<std::ptrdiff_t>(row * c.width());
  Doubles x(from, from + c.shape.width);
  Doubles w = to_double(c.w);
  double& moved = by_weight ? w[i] : x[i];
  const double step = 1e-5;
  const double center = moved;
  moved = center + step;
  const double above = row_value(c, row, x, w);
  moved = center - step;
  return (above - row_value(c, row, x, w)) / (2.0 * step);
}

class Rmsnorm : public testing::TestWithParam<RowShape> {};

TEST_P(Rmsnorm, ForwardEqualsTheFormulaInDouble) {
  const Case c = make_case(GetParam());
  Doubles expected;
  for (std::size_t row = 0; row < c.rows(); ++row) {
    double squares = 0.0;
    for (std::size_t i = 0; i < c.width(); ++i) {
      squares += std::pow(static_cast<double>(c.x[row * c.width() + i]), 2);
    }
    const double rms = std::sqrt(squares / static_cast<double>(c.width()) + kEps);
    for (std::size_t i = 0; i < c.width(); ++i) {
      expected.push_back(static_cast<double>(c.w[i]) *
                         static_cast<double>(c.x[row * c.width() + i]) / rms);
    }
  }
  Floats rstd(c.rows());
  Floats y(c.x.size());
  rmsnorm_rstd(core::Work(), c.shape, c.x.data(), kEps, rstd.data());
  rmsnorm_apply(core::Work(), c.shape, c.x.data(), {c.w.data()}, rstd.data(), y.data());
  EXPECT_LT(difference(expected, y), 3e-7);
}

TEST_P(Rmsnorm, BackwardEqualsFiniteDifferences) {
  const Case c = make_case(GetParam());
  Doubles expected_dx;
  Doubles expected_dw(c.width(), 0.5);  // what the sum starts from
  for (std::size_t row = 0; row < c.rows(); ++row) {
    for (std::size_t i = 0; i < c.width(); ++i) {
      expected_dx.push_back(slope(c, row, i, false));
      expected_dw[i] += slope(c, row, i, true);
    }
  }
  Floats rstd(c.rows());
  rmsnorm_rstd(core::Work(), c.shape, c.x.data(), kEps, rstd.data());
  Floats dx(c.x.size());
  Floats dw(c.width(), 0.5F);
  RmsnormBackward<float> at{.x = c.x.data(),
                            .weight = c.w.data(),
                            .rstd = rstd.data(),
                            .dy = c.dy.data(),
                            .residual = nullptr,
                            .dx = dx.data(),
                            .dweight_sum = dw.data()};
  rmsnorm_backward(core::Work(), c.shape, at);
  EXPECT_LT(difference(expected_dx, dx), 2e-6);
  EXPECT_LT(difference(expected_dw, dw), 2e-6);

  at.residual = c.residual.data();
  Floats with_residual = c.x;  // dx may overwrite x
  at.x = with_residual.data();
  at.dx = with_residual.data();
  Floats dw_again(c.width(), 0.5F);
  at.dweight_sum = dw_again.data();
  rmsnorm_backward(core::Work(), c.shape, at);
  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = c.residual[i] + dx[i];
  EXPECT_EQ(with_residual, dx);
  EXPECT_EQ(dw_again, dw);
}

INSTANTIATE_TEST_SUITE_P(Widths, Rmsnorm,
                         testing::Values(RowShape{3, 96}, RowShape{5, 17}, RowShape{4, 3},
                                         RowShape{2, 15}, RowShape{7, 256}),
                         [](const auto& at) { return "D" + std::to_string(at.param.width); });

TEST(RmsnormRows, ARowDoesNotDependOnItsNeighbours) {
  const Case c = make_case({4, 50});
  Floats whole(4);
  Floats alone(1);
  rmsnorm_rstd(core::Work(), c.shape, c.x.data(), kEps, whole.data());
  rmsnorm_rstd(core::Work(), {1, 50}, c.x.data() + 150, kEps, alone.data());
  EXPECT_EQ(whole[3], alone[0]);
}

}  // namespace
}  // namespace fm::kernels
