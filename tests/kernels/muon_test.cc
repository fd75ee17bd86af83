#include "kernels/pointwise/muon.h"

#include <gtest/gtest.h>

#include "kernels/pointwise/sums.h"
#include "tests/kernels/random_values.h"

namespace fm::kernels {
namespace {

TEST(Muon, BeginsWithNesterovsMomentum) {
  Floats grad = {2.0F, -4.0F};
  Floats momentum = {1.0F, 0.5F};
  muon_begin({}, {.keep = 0.75F, .take = 0.25F, .grad_scale = 0.5F}, 2, grad.data(),
             momentum.data());
  // g = 1, -2; m = 0.75 m + 0.25 g; direction = 0.25 g + 0.75 m
  EXPECT_EQ(momentum, (Floats{1.0F, -0.125F}));
  EXPECT_EQ(grad, (Floats{1.0F, -0.59375F}));
}

TEST(Muon, MovesAgainstTheDirection) {
  Floats param = {2.0F, -1.0F};
  const Floats direction = {4.0F, 8.0F};
  muon_move({}, 0.5F, 0.25F, 2, direction.data(), param.data());
  EXPECT_EQ(param, (Floats{0.0F, -2.5F}));
}

TEST(Muon, ANormIsThatOfAllBlocks) {
  const std::int64_t count = 2 * kNormBlock + 100;
  Floats values = random_values(count, 1);
  double squares = 0.0;
  for (const float value : values) squares += static_cast<double>(value) * double{value};
  Doubles expected = to_double(values);
  for (double& value : expected) value /= std::sqrt(squares) + 1e-7;
  Doubles blocks(static_cast<std::size_t>(norm_blocks(count)));
  divide_by_norm({}, values, blocks);
  EXPECT_LT(difference(expected, values), 1e-6);
}

TEST(Muon, AFactorIsAPolynomial) {
  const Floats squared = {1.0F, 2.0F, 3.0F, 4.0F};
  Floats factor = {10.0F, 20.0F, 30.0F, 40.0F};
  quintic_factor({}, {.a = 100.0F, .b = -1.0F, .c = 0.5F}, 2, squared.data(), factor.data());
  EXPECT_EQ(factor, (Floats{104.0F, 8.0F, 12.0F, 116.0F}));
}

}  // namespace
}  // namespace fm::kernels
