// Activations against their formulas in fp64; slopes against finite differences of these.
#include "kernels/pointwise/activations.h"

#include <gtest/gtest.h>

#include <numbers>

#include "kernels/float_math.h"
#include "tests/kernels/random_values.h"

namespace fm::kernels {
namespace {

double exact(Activation kind, double x) {
  switch (kind) {
    case Activation::kSilu: return x / (1.0 + std::exp(-x));
    case Activation::kGelu: return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
    case Activation::kGeluTanh:
      return 0.5 * x *
             (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kRelu: return std::max(x, 0.0);
  }
  return 0.0;
}

double slope(Activation kind, double x) {
  constexpr double kStep = 1e-5;
  return (exact(kind, x + kStep) - exact(kind, x - kStep)) / (2 * kStep);
}

class Activations : public testing::TestWithParam<Activation> {
 protected:
  static constexpr std::int64_t kCount = 1003;
  const Floats x_ = random_values(kCount, 1, 3.0F);
  const Floats up_ = random_values(kCount, 2);
  const Floats dy_ = random_values(kCount, 3);
  Doubles of(double (*function)(Activation, double)) const {
    Doubles out;
    for (const float x : x_) out.push_back(function(GetParam(), double{x}));
    return out;
  }
};

Doubles times(const Doubles& a, const Floats& b) {
  Doubles out;
  for (std::size_t i = 0; i < a.size(); ++i) out.push_back(a[i] * double{b[i]});
  return out;
}

TEST_P(Activations, PlainAndItsBackward) {
  Floats y(x_.size());
  activate(core::Work(), GetParam(), kCount, x_.data(), y.data());
  EXPECT_LT(difference(of(exact), y), 3e-7);
  Floats in_place = x_;
  Floats dx = dy_;
  activate_backward<float>(core::Work(), GetParam(), kCount,
                           {in_place.data(), dx.data(), dx.data(), in_place.data()});
  EXPECT_LT(difference(times(of(slope), dy_), dx), 1e-6);
  EXPECT_EQ(in_place, y);
}

TEST_P(Activations, GatedAndItsBackward) {
  Floats y(x_.size());
  glu(core::Work(), GetParam(), kCount, x_.data(), up_.data(), y.data());
  EXPECT_LT(difference(times(of(exact), up_), y), 3e-7);
  Floats up = up_;
  Floats dgate = dy_;
  Floats dup(x_.size());
  glu_backward<float>(core::Work(), GetParam(), kCount,
                      {x_.data(), up.data(), dgate.data(), dgate.data(), dup.data(), up.data()});
  EXPECT_LT(difference(times(of(exact), dy_), dup), 3e-7);
  EXPECT_LT(difference(times(times(of(slope), up_), dy_), dgate), 1e-6);
  EXPECT_EQ(up, y);
}

TEST_P(Activations, FarEndsAreZeroAndTheNumberItself) {
  const Floats x = {-1000.0F, 1000.0F};
  Floats y(2);
  activate(core::Work(), GetParam(), 2, x.data(), y.data());
  EXPECT_EQ(y, (Floats{0.0F, 1000.0F}));
  const Floats dy = {1.0F, 1.0F};
  Floats dx(2);
  activate_backward<float>(core::Work(), GetParam(), 2, {x.data(), dy.data(), dx.data(), y.data()});
  EXPECT_EQ(dx, (Floats{0.0F, 1.0F}));
}

INSTANTIATE_TEST_SUITE_P(All, Activations,
                         testing::Values(Activation::kSilu, Activation::kGelu,
                                         Activation::kGeluTanh, Activation::kRelu));

TEST(ErfFloat, IsNearErfEverywhere) {
  double worst = 0.0;
  for (float x = -6.0F; x < 6.0F; x += 0.0003F) {
    worst = std::max(worst, std::abs(double{erf_float(x)} - std::erf(double{x})));
  }
  EXPECT_LT(worst, 4e-7);
  EXPECT_TRUE(std::isnan(erf_float(std::nanf(""))));
}

}  // namespace
}  // namespace fm::kernels
