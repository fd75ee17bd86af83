// What this CPU does in several passes and a device in one: activations of rows with gaps, heads
// that move, norms with their statistics.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/pointwise/activations.h"
#include "kernels/pointwise/heads.h"
#include "kernels/pointwise/layernorm.h"
#include "kernels/pointwise/rmsnorm.h"
#include "tests/kernels/random_values.h"

namespace fm::kernels {
namespace {

TEST(GluRows, FollowTheFormulaAndLeaveTheGapsAlone) {
  constexpr GatedShape kShape{{3, 5}, 12};
  const Floats both = random_values(3 * 12, 1);
  Floats y(15, NAN);
  glu_rows({}, Activation::kSilu, kShape, both.data(), both.data() + 5, y.data());
  const Floats dy = random_values(3 * 12, 2);
  Floats d = dy;  // dy, then dgate, and dup behind it
  Floats kept = both;
  glu_rows_backward<float>(
      {}, Activation::kSilu, kShape,
      {kept.data(), kept.data() + 5, d.data(), d.data(), d.data() + 5, kept.data() + 5});
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t i = 0; i < 5; ++i) {
      const std::size_t at = row * 12 + i;
      const double gate = both[at];
      const double up = both[at + 5];
      const double s = 1.0 / (1.0 + std::exp(-gate));
      EXPECT_NEAR(y[row * 5 + i], gate * s * up, 1e-6);
      EXPECT_NEAR(d[at], dy[at] * up * s * (1.0 + gate * (1.0 - s)), 1e-6);
      EXPECT_NEAR(d[at + 5], dy[at] * gate * s, 1e-6);
      EXPECT_EQ(kept[at + 5], y[row * 5 + i]);
      EXPECT_EQ(kept[at], both[at]);
    }
    for (std::size_t i = 10; i < 12; ++i) {
      EXPECT_EQ(kept[row * 12 + i], both[row * 12 + i]);
      EXPECT_EQ(d[row * 12 + i], dy[row * 12 + i]);
    }
  }
}

// Two groups of 3 queries, 1 key, 1 value of 4 elements; of these the first 2 turn, by a right
// angle at position 1 and not at position 0.
TEST(Heads, MoveToTheirPlacesAndTurn) {
  constexpr HeadGroups kGroups{2, 3, 1, 4};
  constexpr core::BatchShape kShape{.batch = 1, .seq_len = 2};
  const Floats cosines = {1.0F, 0.0F};
  const Floats sines = {0.0F, 1.0F};
  const RopeTable table{cosines.data(), sines.data(), 1, 4};
  Floats all = random_values(2 * 10 * 4, 1);
  Floats q(2 * 6 * 4);
  Floats k(2 * 2 * 4);
  Floats v(2 * 2 * 4);
  split_heads<float>({}, table, kShape, kGroups, {all.data(), q.data(), k.data(), v.data()});
  const auto expect_head = [&](std::size_t token, std::size_t head, const Floats& in,
                               std::size_t place, bool turns) {
    const float* const from = all.data() + (token * 10 + head) * 4;
    const float* const to = in.data() + place * 4;
    const bool turned = turns && token == 1;
    EXPECT_EQ(to[0], turned ? -from[1] : from[0]) << token << ", head " << head;
    EXPECT_EQ(to[1], turned ? from[0] : from[1]);
    EXPECT_EQ(to[2], from[2]);
    EXPECT_EQ(to[3], from[3]);
  };
  for (std::size_t token = 0; token < 2; ++token) {
    for (std::size_t group = 0; group < 2; ++group) {
      for (std::size_t i = 0; i < 3; ++i) {
        expect_head(token, group * 5 + i, q, token * 6 + group * 3 + i, true);
      }
      expect_head(token, group * 5 + 3, k, token * 2 + group, true);
      expect_head(token, group * 5 + 4, v, token * 2 + group, false);
    }
  }
  Floats back(all.size(), NAN);
  join_heads<float>({}, table, kShape, kGroups, {back.data(), q.data(), k.data(), v.data()});
  EXPECT_EQ(back, all);
  split_heads<float>({}, {}, kShape, kGroups, {all.data(), q.data(), k.data(), v.data()});
  EXPECT_EQ(q[24], all[40]) << "without a table nothing turns";
}

TEST(Norms, WithTheirStatisticsAreStatisticsAndNorm) {
  constexpr RowShape kRows{3, 37};
  const Floats x = random_values(3 * 37, 1);
  const Floats weight = random_values(37, 2);
  const Floats bias = random_values(37, 3);
  Floats mean(3);
  Floats rstd(3);
  Floats y(x.size());
  layernorm<float>({}, kRows, 1e-5,
                   {x.data(), weight.data(), bias.data(), mean.data(), rstd.data(), y.data()});
  Floats root(3);
  Floats plain(x.size());
  rmsnorm<float>({}, kRows, x.data(), {weight.data()}, 1e-5, root.data(), plain.data());
  for (std::size_t row = 0; row < 3; ++row) {
    double sum = 0.0;
    double squares = 0.0;
    for (std::size_t i = 0; i < 37; ++i) {
      const double at = x[row * 37 + i];
      sum += at / 37.0;
      squares += at * at / 37.0;
    }
    const double by_mean = 1.0 / std::sqrt(squares - sum * sum + 1e-5);
    const double by_zero = 1.0 / std::sqrt(squares + 1e-5);
    EXPECT_NEAR(mean[row], sum, 1e-6);
    EXPECT_NEAR(rstd[row], by_mean, 1e-5);
    EXPECT_NEAR(root[row], by_zero, 1e-5);
    for (std::size_t i = 0; i < 37; ++i) {
      const double at = x[row * 37 + i];
      EXPECT_NEAR(y[row * 37 + i], (at - sum) * by_mean * weight[i] + bias[i], 1e-5);
      EXPECT_NEAR(plain[row * 37 + i], at * by_zero * weight[i], 1e-5);
    }
  }
}

}  // namespace
}  // namespace fm::kernels
