// Activations of CUDA devices against their formulas in fp64.
#include "kernels/pointwise/activations.h"

#include <functional>

#include "tests/emulated/emulated_case.h"

namespace fm::emulated {
namespace {

using kernels::Activation;
using kernels::Doubles;
using kernels::random_values;

const core::Work kHere;
constexpr std::int64_t kCounts[] = {1, 3, 7, 8, 33, 64, 129, 1000, 14000};
constexpr Activation kKinds[] = {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh,
                                 Activation::kRelu};

struct Exact {
  double value;
  double slope;
};
double logistic(double x) { return 1.0 / (1.0 + std::exp(-x)); }
// Value and slope by the formulas of kernels/pointwise/activations.h.
Exact exact(Activation kind, double x) {
  switch (kind) {
    case Activation::kSilu: {
      const double s = logistic(x);
      return {x * s, s * (1.0 + x * (1.0 - s))};
    }
    case Activation::kGelu: {
      const double share = 0.5 * std::erfc(-x / std::sqrt(2.0));
      return {x * share, share + x * std::exp(-0.5 * x * x) / std::sqrt(2.0 * M_PI)};
    }
    case Activation::kGeluTanh: {
      const double root = std::sqrt(2.0 / M_PI);
      const double tanh = std::tanh(root * (x + 0.044715 * x * x * x));
      const double inner = root * (1.0 + 3.0 * 0.044715 * x * x);
      return {0.5 * x * (1.0 + tanh), 0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * inner};
    }
    case Activation::kRelu: return {x > 0.0 ? x : 0.0, x > 0.0 ? 1.0 : 0.0};
  }
  return {NAN, NAN};
}

template <class T>
constexpr double kTolerance = std::is_same_v<T, float> ? 1e-5 : 5e-3;
template <>
constexpr double kTolerance<core::F16> = 1e-3;

// The relative L2 distance of got(i) from expected(i); NaN where anything is NaN.
template <class T>
double distance(std::int64_t count, const T* got, const std::function<double(std::size_t)>& exact) {
  double gap = 0.0;
  double all = 0.0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const double expected = exact(i);
    const double off = static_cast<double>(core::to_float(got[i])) - expected;
    gap += off * off;
    all += expected * expected;
  }
  return all == 0.0 ? gap : std::sqrt(gap / all);
}

template <class T>
class EmulatedActivations : public testing::Test {
 protected:
  // `off`: how many elements before the arrays lie in front of what the kernels get.
  struct Inputs {
    Inputs(std::int64_t count, std::int64_t before)
        : off(static_cast<std::size_t>(before)),
          gate(kernels::narrowed<T>(random_values(count + before, 1, 3.0F))),
          up(kernels::narrowed<T>(random_values(count + before, 2))),
          dy(kernels::narrowed<T>(random_values(count + before, 3))) {}
    double gate_at(std::size_t i) const { return core::to_float(gate[i + off]); }
    double up_at(std::size_t i) const { return core::to_float(up[i + off]); }
    double dy_at(std::size_t i) const { return core::to_float(dy[i + off]); }
    std::size_t off;
    std::vector<T> gate;
    std::vector<T> up;
    std::vector<T> dy;
  };
  static const auto& kernels_of() { return elements_of<T>(table()); }
};
using AllTypes = testing::Types<float, core::Bf16, core::F16>;
TYPED_TEST_SUITE(EmulatedActivations, AllTypes);

TYPED_TEST(EmulatedActivations, ValuesAndGatedValuesFollowTheFormula) {
  using T = TypeParam;
  for (const Activation kind : kKinds) {
    for (const std::int64_t count : kCounts) {
      for (const std::int64_t before : {0, 1}) {
        const typename TestFixture::Inputs in(count, before);
        const std::size_t off = in.off;
        const auto y = in_every_order([&] {
          auto out = poisoned<T>(count + before);
          this->kernels_of().activate(kHere, kind, count, in.gate.data() + off, out.data() + off);
          return out;
        });
        EXPECT_LE(distance<T>(count, y.data() + off,
                              [&](std::size_t i) { return exact(kind, in.gate_at(i)).value; }),
                  kTolerance<T>);
        auto gated = poisoned<T>(count + before);
        this->kernels_of().glu(kHere, kind, count, in.gate.data() + off, in.up.data() + off,
                               gated.data() + off);
        EXPECT_LE(distance<T>(count, gated.data() + off,
                              [&](std::size_t i) {
                                return exact(kind, in.gate_at(i)).value * in.up_at(i);
                              }),
                  kTolerance<T>);
      }
    }
  }
}

TYPED_TEST(EmulatedActivations, SlopesFollowTheFormulaInPlace) {
  using T = TypeParam;
  for (const Activation kind : kKinds) {
    for (const std::int64_t count : kCounts) {
      for (const std::int64_t before : {0, 1}) {
        const typename TestFixture::Inputs in(count, before);
        const std::size_t off = in.off;
        auto x = in.gate;  // and y
        auto dx = in.dy;   // and dy
        this->kernels_of().activate_backward(
            kHere, kind, count, {x.data() + off, dx.data() + off, dx.data() + off, x.data() + off});
        EXPECT_LE(distance<T>(count, x.data() + off,
                              [&](std::size_t i) { return exact(kind, in.gate_at(i)).value; }),
                  kTolerance<T>);
        EXPECT_LE(distance<T>(count, dx.data() + off,
                              [&](std::size_t i) {
                                return in.dy_at(i) * exact(kind, in.gate_at(i)).slope;
                              }),
                  kTolerance<T>);
      }
    }
  }
}

template <class T, class Inputs>
void expect_gated_slopes(Activation kind, std::int64_t count, const Inputs& in, const T* dgate,
                         const T* dup, const T* y) {
  EXPECT_LE(distance<T>(count, dgate,
                        [&](std::size_t i) {
                          return in.dy_at(i) * in.up_at(i) * exact(kind, in.gate_at(i)).slope;
                        }),
            kTolerance<T>);
  EXPECT_LE(
      distance<T>(count, dup,
                  [&](std::size_t i) { return in.dy_at(i) * exact(kind, in.gate_at(i)).value; }),
      kTolerance<T>);
  EXPECT_LE(
      distance<T>(count, y,
                  [&](std::size_t i) { return in.up_at(i) * exact(kind, in.gate_at(i)).value; }),
      kTolerance<T>);
}

TYPED_TEST(EmulatedActivations, GatedSlopesFollowTheFormulaInPlaceAndApart) {
  using T = TypeParam;
  for (const Activation kind : kKinds) {
    for (const std::int64_t count : kCounts) {
      for (const std::int64_t before : {0, 1}) {
        const typename TestFixture::Inputs in(count, before);
        const std::size_t off = in.off;
        auto dgate = poisoned<T>(count + before);
        auto dup = poisoned<T>(count + before);
        auto y = poisoned<T>(count + before);
        this->kernels_of().glu_backward(
            kHere, kind, count,
            {in.gate.data() + off, in.up.data() + off, in.dy.data() + off, dgate.data() + off,
             dup.data() + off, y.data() + off});
        expect_gated_slopes(kind, count, in, dgate.data() + off, dup.data() + off, y.data() + off);
        auto up = in.up;  // and y
        auto dy = in.dy;  // and dgate
        auto other = poisoned<T>(count + before);
        this->kernels_of().glu_backward(kHere, kind, count,
                                        {in.gate.data() + off, up.data() + off, dy.data() + off,
                                         dy.data() + off, other.data() + off, up.data() + off});
        EXPECT_EQ(0, std::memcmp(dy.data() + off, dgate.data() + off,
                                 static_cast<std::size_t>(count) * sizeof(T)));
        EXPECT_EQ(0, std::memcmp(other.data() + off, dup.data() + off,
                                 static_cast<std::size_t>(count) * sizeof(T)));
        EXPECT_EQ(0, std::memcmp(up.data() + off, y.data() + off,
                                 static_cast<std::size_t>(count) * sizeof(T)));
      }
    }
  }
}

// Halves of the rows of one array, in place where the engine has them, have the bits of arrays of
// their own; and what lies between the rows stays.
TYPED_TEST(EmulatedActivations, RowsWithGapsHaveTheBitsOfRowsWithout) {
  using T = TypeParam;
  const auto& fused = elements_of<T>(table().fused);
  constexpr kernels::RowShape kRows[] = {{1, 1}, {3, 7}, {5, 8}, {9, 48}, {2, 1001}, {70, 64}};
  for (const Activation kind : kKinds) {
    for (const kernels::RowShape rows : kRows) {
      for (const std::int64_t gap : {rows.width, rows.width + 3}) {
        const kernels::GatedShape shape{rows, rows.width + gap};
        const std::int64_t count = rows.rows * rows.width;
        const typename TestFixture::Inputs in(count, 0);
        // An array whose rows have `first` and `second` behind each other, in poison.
        const auto together = [&](const std::vector<T>& first, const std::vector<T>& second) {
          auto all = poisoned<T>(rows.rows * shape.stride);
          for (std::int64_t i = 0; i < count; ++i) {
            const auto at = i / rows.width * shape.stride + i % rows.width;
            all[static_cast<std::size_t>(at)] = first[static_cast<std::size_t>(i)];
            all[static_cast<std::size_t>(at + rows.width)] = second[static_cast<std::size_t>(i)];
          }
          return all;
        };
        const auto expect_bits = [&](const std::vector<T>& got, const std::vector<T>& expected) {
          ASSERT_EQ(got.size(), expected.size());
          EXPECT_EQ(0, std::memcmp(got.data(), expected.data(), got.size() * sizeof(T)))
              << rows.rows << " x " << rows.width << " + " << gap;
        };
        auto y = poisoned<T>(count);
        this->kernels_of().glu(kHere, kind, count, in.gate.data(), in.up.data(), y.data());
        auto gate_up = together(in.gate, in.up);
        expect_bits(in_every_order([&] {
                      auto out = poisoned<T>(count);
                      fused.glu_rows(kHere, kind, shape, gate_up.data(),
                                     gate_up.data() + rows.width, out.data());
                      return out;
                    }),
                    y);
        auto dgate = poisoned<T>(count);
        auto dup = poisoned<T>(count);
        this->kernels_of().glu_backward(
            kHere, kind, count,
            {in.gate.data(), in.up.data(), in.dy.data(), dgate.data(), dup.data(), y.data()});
        auto d = together(in.dy, poisoned<T>(count));
        T* const up = gate_up.data() + rows.width;
        fused.glu_rows_backward(
            kHere, kind, shape,
            {gate_up.data(), up, d.data(), d.data(), d.data() + rows.width, up});
        expect_bits(d, together(dgate, dup));
        expect_bits(gate_up, together(in.gate, y));
      }
    }
  }
}

TYPED_TEST(EmulatedActivations, SwigluIsTheGatedSilu) {
  using T = TypeParam;
  constexpr std::int64_t kCount = 1003;
  const typename TestFixture::Inputs in(kCount, 0);
  auto expected = poisoned<T>(kCount);
  auto y = poisoned<T>(kCount);
  this->kernels_of().glu(kHere, Activation::kSilu, kCount, in.gate.data(), in.up.data(),
                         expected.data());
  this->kernels_of().swiglu(kHere, kCount, in.gate.data(), in.up.data(), y.data());
  EXPECT_EQ(0, std::memcmp(y.data(), expected.data(), kCount * sizeof(T)));
  const auto results = in_every_order([&] {
    auto out = poisoned<T>(3 * kCount);
    this->kernels_of().swiglu_backward(kHere, kCount,
                                       {in.gate.data(), in.up.data(), in.dy.data(), out.data(),
                                        out.data() + kCount, out.data() + 2 * kCount});
    return out;
  });
  expect_gated_slopes(Activation::kSilu, kCount, in, results.data(), results.data() + kCount,
                      results.data() + 2 * kCount);
}

TYPED_TEST(EmulatedActivations, NothingHasNoActivation) {
  for (const Activation kind : kKinds) {
    this->kernels_of().activate(kHere, kind, 0, nullptr, nullptr);
    this->kernels_of().glu(kHere, kind, 0, nullptr, nullptr, nullptr);
    this->kernels_of().activate_backward(kHere, kind, 0, {});
    this->kernels_of().glu_backward(kHere, kind, 0, {});
  }
}

// Far from 0 an activation is its argument or 0, without overflow on the way.
TYPED_TEST(EmulatedActivations, LargeArgumentsGiveNoNan) {
  using T = TypeParam;
  for (const Activation kind : kKinds) {
    for (const float x : {-60000.0F, -200.0F, -89.0F, 0.0F, 89.0F, 200.0F, 60000.0F}) {
      std::vector<T> value = {core::to_element<T>(x)};
      std::vector<T> slope = {core::to_element<T>(1.0F)};
      const double at = core::to_float(value[0]);
      this->kernels_of().activate_backward(
          kHere, kind, 1, {value.data(), slope.data(), slope.data(), value.data()});
      EXPECT_NEAR(core::to_float(value[0]), exact(kind, at).value, 1e-6) << x;
      EXPECT_NEAR(core::to_float(slope[0]), exact(kind, at).slope, 1e-6) << x;
    }
  }
}

}  // namespace
}  // namespace fm::emulated
