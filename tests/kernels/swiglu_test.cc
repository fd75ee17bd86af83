#include "kernels/pointwise/swiglu.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/float_math.h"
#include "tests/kernels/random_values.h"

namespace fm::kernels {
namespace {

double silu(double x) { return x / (1.0 + std::exp(-x)); }

TEST(ExpFloat, IsWithinTwoUnitsInTheLastPlace) {
  double worst = 0.0;
  for (float x = -87.3F; x < 88.7F; x += 0.0007F) {
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(exp_float(x)) - exact) / exact);
  }
  EXPECT_LT(worst, 2.0 * 0x1p-23);
  EXPECT_EQ(exp_float(0.0F), 1.0F);
}

TEST(ExpFloat, EndsInZeroInfinityAndNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exp_float(-88.0F), 0.0F);
  EXPECT_EQ(exp_float(-infinity), 0.0F);
  EXPECT_EQ(exp_float(88.8F), infinity);
  EXPECT_EQ(exp_float(infinity), infinity);
  EXPECT_TRUE(std::isnan(exp_float(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Swiglu, ForwardEqualsTheFormulaInDouble) {
  const Floats gate = random_values(1003, 1, 4.0F);
  const Floats up = random_values(1003, 2);
  Doubles expected;
  for (std::size_t i = 0; i < gate.size(); ++i) {
    expected.push_back(silu(static_cast<double>(gate[i])) * static_cast<double>(up[i]));
  }
  Floats y(gate.size());
  swiglu(core::Work(), 1003, gate.data(), up.data(), y.data());
  EXPECT_LT(difference(expected, y), 3e-7);
}

TEST(Swiglu, BackwardEqualsFiniteDifferences) {
  const Floats gate = random_values(517, 3, 4.0F);
  const Floats up = random_values(517, 4);
  const Floats dy = random_values(517, 5);
  Doubles dgate;
  Doubles dup;
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const auto g = static_cast<double>(gate[i]);
    const auto d = static_cast<double>(dy[i]);
    const double step = 1e-5;
    dgate.push_back(d * static_cast<double>(up[i]) * (silu(g + step) - silu(g - step)) /
                    (2 * step));
    dup.push_back(d * silu(g));
  }
  Floats got_dgate(gate.size());
  Floats got_dup(gate.size());
  Floats y(gate.size());
  swiglu_backward<float>(
      core::Work(), 517,
      {gate.data(), up.data(), dy.data(), got_dgate.data(), got_dup.data(), y.data()});
  EXPECT_LT(difference(dgate, got_dgate), 5e-7);
  EXPECT_LT(difference(dup, got_dup), 5e-7);

  Floats in_place = dy;
  Floats again = up;
  swiglu_backward<float>(
      core::Work(), 517,
      {gate.data(), again.data(), in_place.data(), in_place.data(), got_dup.data(), again.data()});
  EXPECT_EQ(in_place, got_dgate);
  EXPECT_EQ(again, y);
  swiglu(core::Work(), 517, gate.data(), up.data(), again.data());
  EXPECT_EQ(again, y);
}

TEST(Swiglu, LargeNegativeGateGivesZeroNotNan) {
  const Floats gate = {-1000.0F, 1000.0F};
  const Floats up = {2.0F, 2.0F};
  Floats y(2);
  swiglu(core::Work(), 2, gate.data(), up.data(), y.data());
  EXPECT_EQ(y, (Floats{0.0F, 2000.0F}));
}

}  // namespace
}  // namespace fm::kernels
