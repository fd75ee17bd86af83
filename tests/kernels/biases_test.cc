#include "kernels/pointwise/biases.h"

#include <gtest/gtest.h>

#include "kernels/pointwise/elements.h"
#include "kernels/pointwise/moves.h"
#include "tests/kernels/narrow_values.h"

namespace fm::kernels {
namespace {

// Small whole numbers: every type holds them and their sums.
template <class T>
Narrows<T> whole(std::size_t count, int from) {
  Narrows<T> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(core::to_element<T>(static_cast<float>(from + static_cast<int>(i % 11))));
  }
  return out;
}

template <class T>
class Biases : public testing::Test {};
using Types = testing::Types<float, core::Bf16, core::F16>;
TYPED_TEST_SUITE(Biases, Types);

TYPED_TEST(Biases, AreAddedToEveryRowAndSummedOverAll) {
  using T = TypeParam;
  const RowShape shape{3, 21};
  const Narrows<T> bias = whole<T>(21, -4);
  Narrows<T> y = whole<T>(63, 1);
  const Floats before = to_floats(y);
  add_bias(core::Work(), shape, bias.data(), y.data());
  Floats sums(21, 100.0F);
  column_sums(core::Work(), shape, y.data(), sums.data());
  for (std::size_t i = 0; i < 21; ++i) {
    float sum = 100.0F;
    for (std::size_t row = 0; row < 3; ++row) {
      const float expected = before[row * 21 + i] + core::to_float(bias[i]);
      EXPECT_EQ(core::to_float(y[row * 21 + i]), expected);
      sum += expected;
    }
    EXPECT_EQ(sums[i], sum);
  }
}

TYPED_TEST(Biases, ResidualsAreAddedAndNumbersScaledWithOneRounding) {
  using T = TypeParam;
  const Floats x = random_values(103, 1);
  const Narrows<T> residual = narrowed<T>(random_values(103, 2));
  Narrows<T> y(103);
  add_residual(core::Work(), 103, x.data(), residual.data(), y.data());
  Narrows<T> scaled = residual;
  scale(core::Work(), 103, 9.797959F, scaled.data());
  for (std::size_t i = 0; i < 103; ++i) {
    const float r = core::to_float(residual[i]);
    EXPECT_EQ(core::to_float(y[i]), core::to_float(core::to_element<T>(x[i] + r)));
    EXPECT_EQ(core::to_float(scaled[i]), core::to_float(core::to_element<T>(r * 9.797959F)));
  }
}

TEST(Rows, AreCopiedOutOfWiderOnes) {
  core::Work work{core::Arena(), 1};
  const Floats from = {0, 1, 2, 10, 11, 12, 20, 21, 22};
  Floats to(6, -1.0F);
  copy_rows<float>(work, {3, 2}, {from.data() + 1, 3}, {to.data(), 2});
  EXPECT_EQ(to, (Floats{1, 2, 11, 12, 21, 22}));
}

}  // namespace
}  // namespace fm::kernels
