// Kernels over bf16 and fp16 against their formulas in fp64 on the same numbers: what is stored is
// rounded once, so a result is half a last place of its type away, and by what fp32 adds.
#include <gtest/gtest.h>

#include <complex>

#include "kernels/pointwise/elements.h"
#include "kernels/pointwise/rmsnorm.h"
#include "kernels/pointwise/rope.h"
#include "kernels/pointwise/swiglu.h"
#include "tests/kernels/narrow_values.h"

namespace fm::kernels {
namespace {

constexpr double kFp32 = 2e-6;  // of the largest number
constexpr double kEps = 1e-5;

template <class T>
class NarrowKernels : public testing::Test {};
TYPED_TEST_SUITE(NarrowKernels, NarrowTypes);

template <class T>
Doubles doubles(const Narrows<T>& values) {
  return to_double(to_floats(values));
}

TYPED_TEST(NarrowKernels, CastRoundsRowsAndLeavesTheGaps) {
  using T = TypeParam;
  const Floats from = random_values(5 * 40, 1);
  const T kept = core::to_element<T>(7.0F);
  Narrows<T> narrow(5 * 50, kept);
  cast_rows(core::Work(), RowShape{5, 33}, from.data(), 40, narrow.data(), 50);
  Floats wide(5 * 35, 7.0F);
  cast_rows(core::Work(), RowShape{5, 33}, narrow.data(), 50, wide.data(), 35);
  for (std::size_t row = 0; row < 5; ++row) {
    for (std::size_t i = 0; i < 50; ++i) {
      const T expected = i < 33 ? core::to_element<T>(from[row * 40 + i]) : kept;
      EXPECT_EQ(narrow[row * 50 + i].bits, expected.bits) << row << ", " << i;
      if (i >= 35) continue;
      EXPECT_EQ(wide[row * 35 + i], core::to_float(expected)) << row << ", " << i;
    }
  }
}

TYPED_TEST(NarrowKernels, CastOfOneRow) {
  using T = TypeParam;
  const Floats from = random_values(1003, 2);
  Narrows<T> narrow(1003);
  cast(core::Work(), 1003, from.data(), narrow.data());
  Floats wide(1003);
  cast(core::Work(), 1003, narrow.data(), wide.data());
  EXPECT_EQ(wide, to_floats(narrowed<T>(from)));
}

TYPED_TEST(NarrowKernels, EmbeddingCopiesRowsAndAddsGradientsInFp32) {
  using T = TypeParam;
  const std::vector<std::int32_t> tokens = {2, 0, 2};
  const Narrows<T> table = narrowed<T>({0, 1, 10, 11, 20, 21});
  Narrows<T> out(6);
  embedding(core::Work(), tokens, table.data(), 2, out.data());
  EXPECT_EQ(to_floats(out), (Floats{20, 21, 0, 1, 20, 21}));
  Floats dtable = {100, 100, 100, 100, 1025, 1026};  // bf16 holds neither 1025 nor 1026
  const Narrows<T> dout = narrowed<T>({1, 2, 3, 4, 5, 6});
  embedding_backward(core::Work(), tokens, {0, 9}, dout.data(), 2, dtable.data());
  EXPECT_EQ(dtable, (Floats{103, 104, 100, 100, 1031, 1034}));
}

template <class T>
struct Norm {
  RowShape shape{5, 250};
  Narrows<T> x = random_narrows<T>(5 * 250, 1, 3.0F);
  Narrows<T> w = random_narrows<T>(250, 2);
  Floats dy = random_values(5 * 250, 3);
  Narrows<T> residual = random_narrows<T>(5 * 250, 4);
  Floats rstd = Floats(5);
  Norm() { rmsnorm_rstd(core::Work(), shape, x.data(), kEps, rstd.data()); }

  double exact_rstd(std::size_t row) const {
    double squares = 0.0;
    for (std::size_t i = 0; i < 250; ++i) {
      squares += std::pow(static_cast<double>(core::to_float(x[row * 250 + i])), 2);
    }
    return 1.0 / std::sqrt(squares / 250.0 + kEps);
  }
};

TYPED_TEST(NarrowKernels, RmsnormForwardEqualsTheFormulaInDouble) {
  using T = TypeParam;
  const Norm<T> at;
  const Doubles x = doubles(at.x);
  const Doubles w = doubles(at.w);
  Doubles rstd;
  Doubles expected;
  for (std::size_t row = 0; row < 5; ++row) {
    rstd.push_back(at.exact_rstd(row));
    for (std::size_t i = 0; i < 250; ++i) expected.push_back(w[i] * x[row * 250 + i] * rstd[row]);
  }
  EXPECT_LT(difference(rstd, at.rstd), 3e-7);
  Narrows<T> y(at.x.size());
  rmsnorm_apply(core::Work(), at.shape, at.x.data(), {at.w.data()}, at.rstd.data(), y.data());
  EXPECT_LT(beyond_rounding(expected, y), kFp32);
}

TYPED_TEST(NarrowKernels, RmsnormBackwardEqualsTheFormulaInDouble) {
  using T = TypeParam;
  const Norm<T> at;
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
  Narrows<T> got = at.x;  // dx may be x
  Floats got_dweight(250, 0.5F);
  RmsnormBackward<T> run{.x = got.data(),
                         .weight = at.w.data(),
                         .rstd = at.rstd.data(),
                         .dy = at.dy.data(),
                         .dx = got.data(),
                         .dweight_sum = got_dweight.data()};
  rmsnorm_backward(core::Work(), at.shape, run);
  EXPECT_LT(beyond_rounding(dx, got), kFp32);
  EXPECT_LT(difference(dweight, got_dweight), kFp32);

  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] += residual[i];
  run.x = at.x.data();
  run.residual = at.residual.data();
  rmsnorm_backward(core::Work(), at.shape, run);
  EXPECT_LT(beyond_rounding(dx, got), kFp32);
}

TYPED_TEST(NarrowKernels, RopeTurnsPairsOfHalvesAndBack) {
  using T = TypeParam;
  constexpr core::BatchShape kShape{.batch = 2, .seq_len = 7};
  const Floats inv_freq = {1.0F, 0.5F, 0.1F, 0.03F, 0.001F};
  Floats cos(35);
  Floats sin(35);
  rope_table(core::Work(), inv_freq, 7, cos.data(), sin.data());
  const RopeTable table{cos.data(), sin.data(), 5, 10};
  const Narrows<T> x = random_narrows<T>(2 * 7 * 3 * 10, 5);
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
    Narrows<T> turned = x;
    if (sign > 0) {
      rope(core::Work(), table, kShape, 3, turned.data());
    } else {
      rope_inverse(core::Work(), table, kShape, 3, turned.data());
    }
    EXPECT_LT(beyond_rounding(expected, turned), kFp32);
  }
}

TYPED_TEST(NarrowKernels, SwigluForwardAndBackwardEqualTheFormulasInDouble) {
  using T = TypeParam;
  const Narrows<T> gate = random_narrows<T>(1003, 1, 4.0F);
  const Narrows<T> up = random_narrows<T>(1003, 2);
  const Narrows<T> dy = random_narrows<T>(1003, 3);
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
  Narrows<T> got(1003);
  swiglu(core::Work(), 1003, gate.data(), up.data(), got.data());
  EXPECT_LT(beyond_rounding(y, got), kFp32);
  Narrows<T> in_place = dy;  // dgate may be dy
  Narrows<T> again(1003);
  swiglu_backward<T>(
      core::Work(), 1003,
      {gate.data(), up.data(), in_place.data(), in_place.data(), got.data(), again.data()});
  EXPECT_LT(beyond_rounding(y, again), kFp32);
  EXPECT_LT(beyond_rounding(dup, got), kFp32);
  EXPECT_LT(beyond_rounding(dgate, in_place), kFp32);
}

}  // namespace
}  // namespace fm::kernels
