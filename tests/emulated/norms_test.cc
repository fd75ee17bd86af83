// RMSNorm, LayerNorm and the parts of a split RMSNorm of CUDA devices, against their formulas in
// fp64.
#include <cmath>

#include "tests/emulated/emulated_case.h"

namespace fm::emulated {
namespace {

using core::Bf16;
using core::F16;
using kernels::Doubles;
using kernels::Floats;
using kernels::NormGain;
using kernels::random_values;
using kernels::RowShape;

const core::Work kHere;
constexpr double kEps = 1e-5;

// These meet every form of a walk: groups of 8, 16 and 32 threads, blocks of 128, 256 and 512, rows
// that are not held, and no packs.
constexpr RowShape kShapes[] = {{1, 1},    {5, 3},    {2, 7},    {70, 8},   {1, 33},
                                {100, 64}, {37, 128}, {3, 129},  {17, 512}, {3, 1000},
                                {2, 1001}, {2, 2048}, {2, 4104}, {1, 8200}};

// Rows that are not aligned have one form for all widths.
constexpr std::int64_t kWidestOff = 1001;

template <class T>
constexpr double kTolerance = 1e-5;
template <>
constexpr double kTolerance<Bf16> = 5e-3;
template <>
constexpr double kTolerance<F16> = 1e-3;

// Elements that begin `off` after the start of their memory, which ends with them.
template <class T>
struct Array {
  std::vector<T> memory;
  std::size_t off;
  T* data() { return memory.data() + off; }
  const T* data() const { return memory.data() + off; }
  double operator[](std::int64_t i) const {
    const T value = memory[static_cast<std::size_t>(i) + off];
    if constexpr (std::is_same_v<T, double>) {
      return value;
    } else {
      return static_cast<double>(core::to_float(value));
    }
  }
  std::int64_t size() const { return std::ssize(memory) - static_cast<std::int64_t>(off); }
};

template <class T>
Array<T> nothing(std::int64_t count, std::size_t off) {
  return {poisoned<T>(count + static_cast<std::int64_t>(off)), off};
}

template <class T>
Array<T> random_array(std::int64_t count, std::size_t off, std::uint32_t seed, float add = 0.0F) {
  Array<T> out{{}, off};
  for (const float value : random_values(count + static_cast<std::int64_t>(off), seed)) {
    out.memory.push_back(core::to_element<T>(value + add));
  }
  return out;
}

// Relative L2.
template <class T>
double distance(const Doubles& expected, const Array<T>& got) {
  if (std::ssize(expected) != got.size()) return INFINITY;
  double gap = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double other = got[static_cast<std::int64_t>(i)];
    gap += (expected[i] - other) * (expected[i] - other);
    norm += expected[i] * expected[i];
  }
  return norm == 0.0 ? std::sqrt(gap) : std::sqrt(gap / norm);
}

template <class T>
void append(std::vector<unsigned char>& bits, const Array<T>& array) {
  const auto* const from = reinterpret_cast<const unsigned char*>(array.data());
  bits.insert(bits.end(), from, from + static_cast<std::size_t>(array.size()) * sizeof(T));
}

enum class Kind : std::uint8_t { kRms, kOnePlusRms, kLayer };

template <class T>
struct Case {
  Kind kind;
  RowShape shape;
  std::size_t off;
  Array<T> x, weight, bias, residual;
  Array<float> dy, mean, rstd;
  Doubles exact_mean, exact_rstd;

  Case(Kind of, RowShape rows, std::size_t from) : kind(of), shape(rows), off(from) {
    const std::int64_t count = shape.rows * shape.width;
    const bool layer = kind == Kind::kLayer;
    // Rows far from zero: a mean that is not taken off first would show.
    x = random_array<T>(count, off, 1, layer ? 5.0F : 0.5F);
    weight = random_array<T>(shape.width, off, 2);
    bias = random_array<T>(shape.width, off, 3);
    residual = random_array<T>(count, off, 4);
    dy = random_array<float>(count, off, 5);
    mean = nothing<float>(shape.rows, 0);
    rstd = nothing<float>(shape.rows, 0);
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      const auto width = static_cast<double>(shape.width);
      double center = 0.0;
      for (std::int64_t i = 0; i < shape.width && layer; ++i) center += x_at(row, i) / width;
      double squares = 0.0;
      for (std::int64_t i = 0; i < shape.width; ++i) squares += std::pow(x_at(row, i) - center, 2);
      exact_mean.push_back(center);
      exact_rstd.push_back(1.0 / std::sqrt(squares / width + kEps));
      mean.data()[row] = static_cast<float>(center);
      rstd.data()[row] = static_cast<float>(exact_rstd.back());
    }
  }
  double x_at(std::int64_t row, std::int64_t i) const { return x[row * shape.width + i]; }
  double normed(std::int64_t row, std::int64_t i) const {
    const auto at = static_cast<std::size_t>(row);
    return (x_at(row, i) - exact_mean[at]) * exact_rstd[at];
  }
  double gain(std::int64_t i) const { return weight[i] + (kind == Kind::kOnePlusRms ? 1.0 : 0.0); }
  NormGain norm_gain() const {
    return kind == Kind::kOnePlusRms ? NormGain::kOnePlusWeight : NormGain::kWeight;
  }
};

// Of a backward.
template <class T>
struct Gradients {
  Array<T> dx;
  Array<float> dweight, dbias;
};
struct Expected {
  Doubles dx, dweight, dbias;
};

template <class T>
Expected exact_backward(const Case<T>& c, bool residual) {
  const std::int64_t width = c.shape.width;
  const bool layer = c.kind == Kind::kLayer;
  Expected out{{},
               Doubles(static_cast<std::size_t>(width), 0.5),
               Doubles(static_cast<std::size_t>(width), 0.25)};
  for (std::int64_t row = 0; row < c.shape.rows; ++row) {
    double plain = 0.0;
    double product = 0.0;
    for (std::int64_t i = 0; i < width; ++i) {
      const double dy = c.dy[row * width + i];
      if (layer) plain += dy * c.gain(i) / static_cast<double>(width);
      product += dy * c.gain(i) * c.normed(row, i) / static_cast<double>(width);
      out.dweight[static_cast<std::size_t>(i)] += dy * c.normed(row, i);
      if (layer) out.dbias[static_cast<std::size_t>(i)] += dy;
    }
    for (std::int64_t i = 0; i < width; ++i) {
      const double g = c.dy[row * width + i] * c.gain(i);
      const double more = residual ? c.residual[row * width + i] : 0.0;
      out.dx.push_back(c.exact_rstd[static_cast<std::size_t>(row)] *
                           (g - plain - c.normed(row, i) * product) +
                       more);
    }
  }
  return out;
}

enum class Place : std::uint8_t { kApart, kInX };

template <class T>
Gradients<T> backward(const Case<T>& c, bool residual, Place place) {
  const std::int64_t count = c.shape.rows * c.shape.width;
  Gradients<T> out{place == Place::kInX ? c.x : nothing<T>(count, c.off),
                   {Floats(static_cast<std::size_t>(c.shape.width) + c.off, 0.5F), c.off},
                   {Floats(static_cast<std::size_t>(c.shape.width) + c.off, 0.25F), c.off}};
  const T* const x = place == Place::kInX ? out.dx.data() : c.x.data();
  const T* const more = residual ? c.residual.data() : nullptr;
  const auto& all = elements_of<T>(table());
  if (c.kind == Kind::kLayer) {
    all.layernorm_backward(kHere, c.shape,
                           {.x = x,
                            .weight = c.weight.data(),
                            .mean = c.mean.data(),
                            .rstd = c.rstd.data(),
                            .dy = c.dy.data(),
                            .residual = more,
                            .dx = out.dx.data(),
                            .dweight_sum = out.dweight.data(),
                            .dbias_sum = out.dbias.data()});
  } else {
    all.rmsnorm_backward(kHere, c.shape,
                         {.x = x,
                          .weight = c.weight.data(),
                          .rstd = c.rstd.data(),
                          .dy = c.dy.data(),
                          .residual = more,
                          .dx = out.dx.data(),
                          .dweight_sum = out.dweight.data(),
                          .gain = c.norm_gain()});
  }
  return out;
}
template <class T>
void expect_near(const Expected& expected, const Gradients<T>& got) {
  EXPECT_LT(distance(expected.dx, got.dx), kTolerance<T>);
  EXPECT_LT(distance(expected.dweight, got.dweight), 1e-5);
  EXPECT_LT(distance(expected.dbias, got.dbias), 1e-5);
}
template <class T>
std::vector<unsigned char> bits_of(const Gradients<T>& gradients) {
  std::vector<unsigned char> bits;
  append(bits, gradients.dx);
  append(bits, gradients.dweight);
  append(bits, gradients.dbias);
  return bits;
}

template <class T>
class EmulatedNorms : public testing::Test {};
using Types = testing::Types<float, Bf16, F16>;
TYPED_TEST_SUITE(EmulatedNorms, Types);

template <class T, class Run>
void for_every_case(const Run& run) {
  for (const RowShape shape : kShapes) {
    for (const std::size_t off : {0U, 1U}) {
      if (off == 1 && shape.width > kWidestOff) continue;
      for (const Kind kind : {Kind::kRms, Kind::kOnePlusRms, Kind::kLayer}) {
        if (kind == Kind::kOnePlusRms && off == 1) continue;
        SCOPED_TRACE(testing::Message() << shape.rows << " x " << shape.width << " at " << off
                                        << ", kind " << static_cast<int>(kind));
        run(Case<T>(kind, shape, off));
      }
    }
  }
}

TYPED_TEST(EmulatedNorms, StatisticsEqualTheFormula) {
  for_every_case<TypeParam>([](const Case<TypeParam>& c) {
    Array<float> mean = nothing<float>(c.shape.rows, c.off);
    Array<float> rstd = nothing<float>(c.shape.rows, c.off);
    const auto& all = elements_of<TypeParam>(table());
    in_every_order([&] {
      mean = nothing<float>(c.shape.rows, c.off);
      rstd = nothing<float>(c.shape.rows, c.off);
      if (c.kind == Kind::kLayer) {
        all.layernorm_statistics(kHere, c.shape, c.x.data(), kEps, mean.data(), rstd.data());
      } else {
        all.rmsnorm_rstd(kHere, c.shape, c.x.data(), kEps, rstd.data());
      }
      std::vector<unsigned char> bits;
      append(bits, mean);
      append(bits, rstd);
      return bits;
    });
    if (c.kind == Kind::kLayer) {
      EXPECT_LT(distance(c.exact_mean, mean), 1e-6);
    }
    // The rstd of a row of one element in LayerNorm, too, whose squares are 0.
    EXPECT_LT(distance(c.exact_rstd, rstd), 1e-5);
  });
}

TYPED_TEST(EmulatedNorms, ApplyEqualsTheFormula) {
  for_every_case<TypeParam>([](const Case<TypeParam>& c) {
    const std::int64_t count = c.shape.rows * c.shape.width;
    Array<TypeParam> y = nothing<TypeParam>(count, c.off);
    const auto& all = elements_of<TypeParam>(table());
    in_every_order([&] {
      y = nothing<TypeParam>(count, c.off);
      if (c.kind == Kind::kLayer) {
        all.layernorm_apply(
            kHere, c.shape,
            {c.x.data(), c.weight.data(), c.bias.data(), c.mean.data(), c.rstd.data(), y.data()});
      } else {
        all.rmsnorm_apply(kHere, c.shape, c.x.data(), {c.weight.data(), c.norm_gain()},
                          c.rstd.data(), y.data());
      }
      return y.memory;
    });
    Doubles expected;
    for (std::int64_t row = 0; row < c.shape.rows; ++row) {
      for (std::int64_t i = 0; i < c.shape.width; ++i) {
        expected.push_back(c.gain(i) * c.normed(row, i) +
                           (c.kind == Kind::kLayer ? c.bias[i] : 0.0));
      }
    }
    EXPECT_LT(distance(expected, y), kTolerance<TypeParam>);
  });
}

TYPED_TEST(EmulatedNorms, OnePassHasTheBitsOfTwo) {
  using T = TypeParam;
  for_every_case<T>([](const Case<T>& c) {
    const auto& all = elements_of<T>(table());
    const auto& fused = elements_of<T>(table().fused);
    const auto made = [&](bool one_pass, std::size_t y_off) {
      Array<float> mean = nothing<float>(c.shape.rows, c.off);
      Array<float> rstd = mean;
      Array<T> y = nothing<T>(c.shape.rows * c.shape.width, y_off);
      const kernels::NormWeight<T> weight{c.weight.data(), c.norm_gain()};
      if (c.kind == Kind::kLayer) {
        if (one_pass) {
          fused.layernorm(
              kHere, c.shape, kEps,
              {c.x.data(), c.weight.data(), c.bias.data(), mean.data(), rstd.data(), y.data()});
        } else {
          all.layernorm_statistics(kHere, c.shape, c.x.data(), kEps, mean.data(), rstd.data());
          all.layernorm_apply(
              kHere, c.shape,
              {c.x.data(), c.weight.data(), c.bias.data(), mean.data(), rstd.data(), y.data()});
        }
      } else if (one_pass) {
        fused.rmsnorm(kHere, c.shape, c.x.data(), weight, kEps, rstd.data(), y.data());
      } else {
        all.rmsnorm_rstd(kHere, c.shape, c.x.data(), kEps, rstd.data());
        all.rmsnorm_apply(kHere, c.shape, c.x.data(), weight, rstd.data(), y.data());
      }
      std::vector<unsigned char> bits;
      append(bits, mean);
      append(bits, rstd);
      append(bits, y);
      return bits;
    };
    EXPECT_EQ(in_every_order([&] { return made(true, c.off); }), made(false, c.off));
    EXPECT_EQ(made(true, 1), made(false, 1)) << "whatever the alignment of y";
  });
}

TYPED_TEST(EmulatedNorms, LayerNormMayHaveNoBias) {
  for_every_case<TypeParam>([](const Case<TypeParam>& c) {
    if (c.kind != Kind::kLayer) return;
    const std::int64_t count = c.shape.rows * c.shape.width;
    const auto& all = elements_of<TypeParam>(table());
    Array<TypeParam> y = nothing<TypeParam>(count, c.off);
    all.layernorm_apply(
        kHere, c.shape,
        {c.x.data(), c.weight.data(), nullptr, c.mean.data(), c.rstd.data(), y.data()});
    Doubles expected;
    for (std::int64_t i = 0; i < count; ++i) {
      expected.push_back(c.gain(i % c.shape.width) *
                         c.normed(i / c.shape.width, i % c.shape.width));
    }
    EXPECT_LT(distance(expected, y), kTolerance<TypeParam>);
    const Gradients<TypeParam> biased = backward(c, false, Place::kApart);
    Gradients<TypeParam> plain = biased;
    plain.dx = nothing<TypeParam>(count, c.off);
    plain.dweight = {Floats(static_cast<std::size_t>(c.shape.width) + c.off, 0.5F), c.off};
    all.layernorm_backward(kHere, c.shape,
                           {.x = c.x.data(),
                            .weight = c.weight.data(),
                            .mean = c.mean.data(),
                            .rstd = c.rstd.data(),
                            .dy = c.dy.data(),
                            .dx = plain.dx.data(),
                            .dweight_sum = plain.dweight.data()});
    EXPECT_EQ(bits_of(biased), bits_of(plain));
  });
}

TYPED_TEST(EmulatedNorms, BackwardEqualsTheFormulaAndAddsToItsSums) {
  for_every_case<TypeParam>([](const Case<TypeParam>& c) {
    Gradients<TypeParam> got = backward(c, true, Place::kApart);
    expect_near(exact_backward(c, true), got);
    EXPECT_EQ(bits_of(got),
              in_every_order([&] { return bits_of(backward(c, true, Place::kInX)); }));
    // Of one element the gradient is what cancellation leaves: next to nothing.
    if (c.shape.width > 1) expect_near(exact_backward(c, false), backward(c, false, Place::kApart));
  });
}

// More rows than the blocks take at once, and partial sums that fill the work space.
TYPED_TEST(EmulatedNorms, ManyRowsShareTheBlocksOfABackward) {
  for (const RowShape shape : {RowShape{600, 1}, RowShape{17000, 8}, RowShape{130, 8200}}) {
    for (const Kind kind : {Kind::kRms, Kind::kLayer}) {
      const Case<TypeParam> c(kind, shape, 0);
      expect_near(exact_backward(c, true), backward(c, true, Place::kApart));
    }
  }
}

// The parts of a row, of which each has its sums, together are the norm of the whole row.
TYPED_TEST(EmulatedNorms, SplitPartsMakeTheWholeRow) {
  for (const RowShape shape : kShapes) {
    for (const std::size_t off : {0U, 1U}) {
      if (off == 1 && shape.width > kWidestOff) continue;
      SCOPED_TRACE(testing::Message() << shape.rows << " x " << shape.width << " at " << off);
      const Case<TypeParam> c(Kind::kRms, shape, off);
      const auto& all = elements_of<TypeParam>(table());
      const std::int64_t count = shape.rows * shape.width;
      const kernels::SplitShape split{shape.rows, shape.width, 3 * shape.width, true};
      Array<TypeParam> dx = nothing<TypeParam>(count, off);
      Array<float> dweight{};
      Array<double> products{};
      const kernels::SplitNormBackward<TypeParam> at{c.x.data(),  c.weight.data(), c.rstd.data(),
                                                     c.dy.data(), dx.data(),       nullptr};
      in_every_order([&] {
        products = nothing<double>(shape.rows, 0);
        dweight = {Floats(static_cast<std::size_t>(shape.width) + off, 0.5F), off};
        auto here = at;
        here.dweight_sum = dweight.data();
        all.split_products(kHere, split, here, products.data());
        std::vector<unsigned char> bits;
        append(bits, products);
        append(bits, dweight);
        return bits;
      });
      all.split_input(kHere, split, at, products.data());
      Doubles exact_products, exact_dx;
      for (std::int64_t row = 0; row < shape.rows; ++row) {
        double sum = 0.0;
        for (std::int64_t i = 0; i < shape.width; ++i) {
          sum += c.dy[row * shape.width + i] * c.weight[i] * c.normed(row, i);
        }
        exact_products.push_back(sum);
        for (std::int64_t i = 0; i < shape.width; ++i) {
          exact_dx.push_back(c.exact_rstd[static_cast<std::size_t>(row)] *
                             (c.dy[row * shape.width + i] * c.weight[i] -
                              c.normed(row, i) * sum / static_cast<double>(split.all)));
        }
      }
      EXPECT_LT(distance(exact_products, products), 1e-6);
      EXPECT_LT(distance(exact_backward(c, false).dweight, dweight), 1e-5);
      EXPECT_LT(distance(exact_dx, dx), kTolerance<TypeParam>);
    }
  }
}

TEST(EmulatedSplitNorm, APartThatDoesNotCountHasNoSums) {
  const Case<float> c(Kind::kRms, {5, 40}, 0);
  kernels::SplitShape shape{5, 40, 80, false};
  Doubles sums = poisoned<double>(5);
  Floats dweight(40, 0.5F);
  table().fp32.split_products(kHere, shape,
                              {.x = c.x.data(),
                               .weight = c.weight.data(),
                               .rstd = c.rstd.data(),
                               .dy = c.dy.data(),
                               .dweight_sum = dweight.data()},
                              sums.data());
  EXPECT_EQ(sums, Doubles(5, 0.0));
  EXPECT_LT(distance(exact_backward(c, false).dweight, Array<float>{dweight, 0}), 1e-5);
  sums = poisoned<double>(5);
  table().split_squares(kHere, shape, c.rstd.data(), sums.data());
  EXPECT_EQ(sums, Doubles(5, 0.0));
}

TEST(EmulatedSplitNorm, SquaresAndRstdAreThoseOfTheCpu) {
  constexpr std::int64_t kRows = 777;
  const kernels::SplitShape shape{kRows, 48, 144, true};
  Floats rstd = random_values(kRows, 9);
  for (float& value : rstd) value = 0.1F + std::abs(value);
  rstd[3] = INFINITY;  // a row of zeros
  Doubles expected(kRows);
  kernels::split_squares(kHere, shape, rstd.data(), expected.data());
  Array<double> squares = nothing<double>(kRows, 0);
  table().split_squares(kHere, shape, rstd.data(), squares.data());
  EXPECT_LT(distance(expected, squares), 1e-12);
  EXPECT_EQ(squares[3], 0.0);
  Floats expected_rstd(kRows);
  kernels::split_rstd(kHere, shape, kEps, expected.data(), expected_rstd.data());
  Floats got = poisoned<float>(kRows);
  table().split_rstd(kHere, shape, kEps, expected.data(), got.data());
  EXPECT_EQ(got, expected_rstd);
}

TEST(EmulatedNormBarriers, AreNeeded) {
  for (const Kind kind : {Kind::kRms, Kind::kLayer}) {
    // Blocks of many threads that take up to three rows, and groups that share a block.
    const Case<Bf16> rows(kind, {140, 8192}, 0);
    const Case<Bf16> groups(kind, {70, 64}, 0);
    for (const auto* c : {&rows, &groups}) {
      expect_every_barrier_needed([&] { return bits_of(backward(*c, true, Place::kApart)); });
    }
    // Many rows for every block: sums of two rows alternate between two places.
    const Case<Bf16> many(kind, {130, 1032}, 0);
    expect_every_barrier_needed([&] {
      Array<float> mean = nothing<float>(130, 0);
      Array<float> rstd = nothing<float>(130, 0);
      if (kind == Kind::kLayer) {
        table().bf16.layernorm_statistics(kHere, many.shape, many.x.data(), kEps, mean.data(),
                                          rstd.data());
      } else {
        table().bf16.rmsnorm_rstd(kHere, many.shape, many.x.data(), kEps, rstd.data());
      }
      mean.memory.insert(mean.memory.end(), rstd.memory.begin(), rstd.memory.end());
      return mean.memory;
    });
  }
}

TEST(EmulatedNormRows, NoRowsStartNothing) {
  const kernels::SplitShape split{0, 8, 8, true};
  table().fp32.rmsnorm_rstd(kHere, {0, 8}, nullptr, kEps, nullptr);
  table().fp32.rmsnorm_apply(kHere, {0, 8}, nullptr, {}, nullptr, nullptr);
  table().fp32.rmsnorm_backward(kHere, {0, 8}, {});
  table().fp32.layernorm_statistics(kHere, {0, 8}, nullptr, kEps, nullptr, nullptr);
  table().fp32.layernorm_apply(kHere, {0, 8}, {});
  table().fp32.layernorm_backward(kHere, {0, 8}, {});
  table().fp32.split_products(kHere, split, {}, nullptr);
  table().fp32.split_input(kHere, split, {}, nullptr);
  table().split_squares(kHere, split, nullptr, nullptr);
  table().split_rstd(kHere, split, kEps, nullptr, nullptr);
}

}  // namespace
}  // namespace fm::emulated
