// Kernels over bf16 against their formulas in fp64 on the same bf16 numbers: what is stored is
// rounded once, so a result is half a last place of bf16 away, and by what fp32 adds.
#include <gtest/gtest.h>

#include <complex>

#include "kernels/pointwise/elements.h"
#include "tests/kernels/bf16_values.h"

namespace fm::kernels {
namespace {

using core::Bf16;

constexpr double kFp32 = 2e-6;  // of the largest number
constexpr double kEps = 1e-5;

Doubles doubles(const Bf16s& values) { return to_double(to_floats(values)); }

TEST(CastBf16, RoundsRowsAndLeavesTheGaps) {
  const Floats from = random_values(5 * 40, 1);
  const Bf16 kept = core::to_bf16(7.0F);
  Bf16s narrow(5 * 50, kept);
  cast_rows(RowShape{5, 33}, from.data(), 40, narrow.data(), 50);
  Floats wide(5 * 35, 7.0F);
  cast_rows(RowShape{5, 33}, narrow.data(), 50, wide.data(), 35);
  for (std::size_t row = 0; row < 5; ++row) {
    for (std::size_t i = 0; i < 50; ++i) {
      const Bf16 expected = i < 33 ? core::to_bf16(from[row * 40 + i]) : kept;
      EXPECT_EQ(narrow[row * 50 + i].bits, expected.bits) << row << ", " << i;
      if (i >= 35) continue;
      EXPECT_EQ(wide[row * 35 + i], core::to_float(expected)) << row << ", " << i;
    }
  }
}

TEST(CastBf16, OfOneRow) {
  const Floats from = random_values(1003, 2);
  Bf16s narrow(1003);
  cast(1003, from.data(), narrow.data());
  Floats wide(1003);
  cast(1003, narrow.data(), wide.data());
  EXPECT_EQ(wide, to_floats(to_bf16s(from)));
}

TEST(EmbeddingBf16, CopiesRowsAndAddsGradientsInFp32) {
  const std::vector<std::int32_t> tokens = {2, 0, 2};
  const Bf16s table = to_bf16s({0, 1, 10, 11, 20, 21});
  Bf16s out(6);
  embedding(tokens, table.data(), 2, out.data());
  EXPECT_EQ(to_floats(out), (Floats{20, 21, 0, 1, 20, 21}));
  Floats dtable = {100, 100, 100, 100, 1025, 1026};  // bf16 holds neither 1025 nor 1026
  const Bf16s dout = to_bf16s({1, 2, 3, 4, 5, 6});
  embedding_backward(tokens, dout.data(), 2, dtable.data());
  EXPECT_EQ(dtable, (Floats{103, 104, 100, 100, 1031, 1034}));
}

struct Norm {
  RowShape shape{5, 250};
  Bf16s x = random_bf16s(5 * 250, 1, 3.0F);
  Bf16s w = random_bf16s(250, 2);
  Floats dy = random_values(5 * 250, 3);
  Bf16s residual = random_bf16s(5 * 250, 4);
  Floats rstd = Floats(5);
  Norm() { rmsnorm_rstd(shape, x.data(), kEps, rstd.data()); }

  double exact_rstd(std::size_t row) const {
    double squares = 0.0;
    for (std::size_t i = 0; i < 250; ++i) {
      squares += std::pow(static_cast<double>(core::to_float(x[row * 250 + i])), 2);
    }
    return 1.0 / std::sqrt(squares / 250.0 + kEps);
  }
};

TEST(RmsnormBf16, ForwardEqualsTheFormulaInDouble) {
  const Norm at;
  const Doubles x = doubles(at.x);
  const Doubles w = doubles(at.w);
  Doubles rstd;
  Doubles expected;
  for (std::size_t row = 0; row < 5; ++row) {
    rstd.push_back(at.exact_rstd(row));
    for (std::size_t i = 0; i < 250; ++i) expected.push_back(w[i] * x[row * 250 + i] * rstd[row]);
  }
  EXPECT_LT(difference(rstd, at.rstd), 3e-7);
  Bf16s y(at.x.size());
  rmsnorm_apply(at.shape, at.x.data(), at.w.data(), at.rstd.data(), y.data());
  EXPECT_LT(beyond_rounding(expected, y), kFp32);
}

TEST(RmsnormBf16, BackwardEqualsTheFormulaInDouble) {
  const Norm at;
  const Doubles x = doubles(at.x);
  const Doubles w = doubles(at.w);
  const Doubles residual = doubles(at.residual);
  Doubles dx;
  Doubles dweight(250, 0.5);  // what the sum starts from
  for (std::size_t row = 0; row < 5; ++row) {
    const double rstd = at.exact_rstd(row);
    const auto dy = [&](std::size_t i) { return static_cast<double>(at.dy[row * 250 + i]); };
    double dot = 0.0;
    for (std::size_t i = 0; i < 250; ++i) dot += dy(i) * w[i] * x[row * 250 + i] * rstd;
    for (std::size_t i = 0; i < 250; ++i) {
      const double n = x[row * 250 + i] * rstd;
      dx.push_back(rstd * (dy(i) * w[i] - n * dot / 250.0));
      dweight[i] += dy(i) * n;
    }
  }
  Bf16s got = at.x;  // dx may be x
  Floats got_dweight(250, 0.5F);
  RmsnormBackward<Bf16> run{.x = got.data(),
                            .weight = at.w.data(),
                            .rstd = at.rstd.data(),
                            .dy = at.dy.data(),
                            .dx = got.data(),
                            .dweight_sum = got_dweight.data()};
  rmsnorm_backward(at.shape, run);
  EXPECT_LT(beyond_rounding(dx, got), kFp32);
  EXPECT_LT(difference(dweight, got_dweight), kFp32);

  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] += residual[i];
  run.x = at.x.data();
  run.residual = at.residual.data();
  rmsnorm_backward(at.shape, run);
  EXPECT_LT(beyond_rounding(dx, got), kFp32);
}

TEST(RopeBf16, TurnsPairsOfHalvesAndBack) {
  constexpr core::BatchShape kShape{.batch = 2, .seq_len = 7};
  const Floats inv_freq = {1.0F, 0.5F, 0.1F, 0.03F, 0.001F};
  Floats cos(35);
  Floats sin(35);
  rope_table(inv_freq, 7, cos.data(), sin.data());
  const RopeTable table{cos.data(), sin.data(), 5};
  const Bf16s x = random_bf16s(2 * 7 * 3 * 10, 5);
  const Doubles from = doubles(x);
  for (const double sign : {1.0, -1.0}) {
    Doubles expected(x.size());
    for (std::size_t head = 0; head < x.size() / 10; ++head) {
      const auto position = static_cast<double>(head / 3 % 7);
      for (std::size_t i = 0; i < 5; ++i) {
        const std::size_t at = head * 10 + i;
        const double angle = sign * position * static_cast<double>(inv_freq[i]);
        const auto turned = std::complex<double>(from[at], from[at + 5]) * std::polar(1.0, angle);
        expected[at] = turned.real();
        expected[at + 5] = turned.imag();
      }
    }
    Bf16s turned = x;
    if (sign > 0) {
      rope(table, kShape, 3, turned.data());
    } else {
      rope_inverse(table, kShape, 3, turned.data());
    }
    EXPECT_LT(beyond_rounding(expected, turned), kFp32);
  }
}

TEST(SwigluBf16, ForwardAndBackwardEqualTheFormulasInDouble) {
  const Bf16s gate = random_bf16s(1003, 1, 4.0F);
  const Bf16s up = random_bf16s(1003, 2);
  const Bf16s dy = random_bf16s(1003, 3);
  Doubles y;
  Doubles dgate;
  Doubles dup;
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const auto g = static_cast<double>(core::to_float(gate[i]));
    const auto u = static_cast<double>(core::to_float(up[i]));
    const auto d = static_cast<double>(core::to_float(dy[i]));
    const double s = 1.0 / (1.0 + std::exp(-g));
    y.push_back(g * s * u);
    dup.push_back(d * g * s);
    dgate.push_back(d * u * (s + g * s * (1.0 - s)));
  }
  Bf16s got(1003);
  swiglu(1003, gate.data(), up.data(), got.data());
  EXPECT_LT(beyond_rounding(y, got), kFp32);
  Bf16s in_place = dy;  // dgate may be dy
  Bf16s again(1003);
  swiglu_backward<Bf16>(
      1003, {gate.data(), up.data(), in_place.data(), in_place.data(), got.data(), again.data()});
  EXPECT_LT(beyond_rounding(y, again), kFp32);
  EXPECT_LT(beyond_rounding(dup, got), kFp32);
  EXPECT_LT(beyond_rounding(dgate, in_place), kFp32);
}

}  // namespace
}  // namespace fm::kernels
