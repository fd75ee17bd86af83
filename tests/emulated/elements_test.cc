// Elements of CUDA devices that are cast, looked up, added, dropped, cleared and copied: the bits
// of this CPU's, but for sums of columns and merged softmaxes, which fp64 judges.
#include "kernels/pointwise/elements.h"

#include <limits>
#include <numeric>

#include "tests/emulated/emulated_case.h"

namespace fm::emulated {
namespace {

using kernels::Doubles;
using kernels::Floats;
using kernels::random_values;
using kernels::RowShape;

const core::Work kHere;
constexpr std::int64_t kCounts[] = {1, 3, 7, 8, 33, 64, 129, 1000, 14001};
constexpr std::int64_t kWidths[] = {1, 3, 7, 8, 33, 64, 129, 1000};

template <class T>
class EmulatedElements : public testing::Test {
 protected:
  static const auto& kernels_of() { return elements_of<T>(table()); }
  static std::vector<T> random(std::int64_t count, std::uint32_t seed) {
    return kernels::narrowed<T>(random_values(count, seed));
  }
};
using AllTypes = testing::Types<float, core::Bf16, core::F16>;
TYPED_TEST_SUITE(EmulatedElements, AllTypes);
template <class T>
class EmulatedCasts : public testing::Test {};
TYPED_TEST_SUITE(EmulatedCasts, kernels::NarrowTypes);

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// Numbers of every magnitude, ties of rounding, denormals and infinities.
Floats edge_values(std::int64_t count, std::uint32_t seed) {
  Floats values = random_values(count, seed);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Floats edges = {0.0F,     -0.0F,       kInfinity,   -kInfinity, 65504.0F,  65520.0F,
                        65519.0F, 1e-40F,      -1e-45F,     6e-8F,      2.9e-8F,   0x1p-14F,
                        3.4e38F,  1.00390625F, 1.01171875F, 0x1p-25F,   -0x1p-24F, 1.00048828125F};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 3 == 1) values[i] = edges[i / 3 % edges.size()];
    if (i % 3 == 2) values[i] *= std::ldexp(1.0F, static_cast<int>(i % 60) - 30);
  }
  return values;
}

// Runs both casts between rows at the offset and strides given and expects the CPU's bits, and that
// what lies between rows stays as it is.
template <class T>
void expect_casts(RowShape shape, std::int64_t off, std::int64_t narrow_gap,
                  std::int64_t wide_gap) {
  const std::int64_t narrow_stride = shape.width + narrow_gap;
  const std::int64_t wide_stride = shape.width + wide_gap;
  const Floats wide = edge_values(off + shape.rows * wide_stride, 5);
  auto expected = poisoned<T>(off + shape.rows * narrow_stride);
  auto got = expected;
  kernels::cast_rows(kHere, shape, wide.data() + off, wide_stride, expected.data() + off,
                     narrow_stride);
  elements_of<T>(table()).narrow(kHere, shape, wide.data() + off, wide_stride, got.data() + off,
                                 narrow_stride);
  EXPECT_TRUE(same_bits(expected, got)) << shape.rows << " " << shape.width;
  Floats wide_expected = poisoned<float>(off + shape.rows * wide_stride);
  Floats wide_got = wide_expected;
  kernels::cast_rows(kHere, shape, expected.data() + off, narrow_stride, wide_expected.data() + off,
                     wide_stride);
  elements_of<T>(table()).widen(kHere, shape, got.data() + off, narrow_stride,
                                wide_got.data() + off, wide_stride);
  EXPECT_TRUE(same_bits(wide_expected, wide_got)) << shape.rows << " " << shape.width;
}

TYPED_TEST(EmulatedCasts, HaveTheBitsOfTheCpuAtEveryStride) {
  for (const std::int64_t width : kWidths) {
    for (const std::int64_t rows : {0, 1, 2, 5, 17}) {
      for (const std::int64_t off : {0, 1}) {
        expect_casts<TypeParam>({rows, width}, off, 0, 0);
        expect_casts<TypeParam>({rows, width}, off, 3, 0);
        expect_casts<TypeParam>({rows, width}, off, (16 - width % 8) % 8, (16 - width % 8) % 8 + 8);
      }
    }
  }
}

TYPED_TEST(EmulatedCasts, KeepANan) {
  const Floats wide = {NAN, -NAN, 1.0F};
  auto narrow = poisoned<TypeParam>(3);
  narrow[0] = core::to_element<TypeParam>(0.0F);
  narrow[1] = narrow[0];
  elements_of<TypeParam>(table()).narrow(kHere, {1, 3}, wide.data(), 3, narrow.data(), 3);
  Floats back(3);
  elements_of<TypeParam>(table()).widen(kHere, {1, 3}, narrow.data(), 3, back.data(), 3);
  EXPECT_TRUE(std::isnan(back[0]));
  EXPECT_TRUE(std::isnan(back[1]));
  EXPECT_EQ(back[2], 1.0F);
}

TEST(EmulatedFloats, CastToThemselves) {
  const Floats from = random_values(5 * 33, 1);
  for (auto* cast : {table().fp32.widen, table().fp32.narrow}) {
    Floats to = poisoned<float>(5 * 35);
    cast(kHere, {5, 33}, from.data(), 33, to.data(), 35);
    for (std::size_t i = 0; i < 5 * 33; ++i) EXPECT_EQ(to[i / 33 * 35 + i % 33], from[i]);
  }
}

// Ids below `vocab`, of which a third are one and the same: rows with many tokens.
std::vector<std::int32_t> random_tokens(std::int64_t count, std::int32_t vocab) {
  std::mt19937 bits(static_cast<std::uint32_t>(count));
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::int32_t& token : tokens) {
    const auto id = static_cast<std::int32_t>(bits() % static_cast<std::uint32_t>(vocab));
    token = bits() % 3 == 0 ? vocab / 2 : id;
  }
  return tokens;
}

TYPED_TEST(EmulatedElements, EmbeddingsHaveTheBitsOfTheCpu) {
  using T = TypeParam;
  constexpr std::int32_t kVocab = 11;
  const kernels::TableRows rows{3, 6};
  for (const std::int64_t width : kWidths) {
    for (const std::int64_t count : {0, 1, 2, 5, 70}) {
      for (const std::size_t off : {0U, 1U}) {
        const std::int64_t before = off == 0 ? 0 : 1;
        const auto tokens = random_tokens(count, kVocab);
        const auto table_VD = this->random(before + kVocab * width, 4);
        auto expected = poisoned<T>(before + count * width);
        auto got = expected;
        kernels::embedding<T>(kHere, tokens, table_VD.data() + off, width, expected.data() + off);
        this->kernels_of().embedding(kHere, tokens, table_VD.data() + off, width, got.data() + off);
        EXPECT_TRUE(same_bits(expected, got)) << count << " " << width;
        Floats part_expected = poisoned<float>(before + count * width);
        Floats part = part_expected;
        kernels::embedding_part<T>(kHere, tokens, rows, table_VD.data() + off, width,
                                   part_expected.data() + off);
        this->kernels_of().embedding_part(kHere, tokens, rows, table_VD.data() + off, width,
                                          part.data() + off);
        EXPECT_TRUE(same_bits(part_expected, part)) << count << " " << width;
      }
    }
  }
}

template <class T>
void expect_embedding_backward(const std::vector<std::int32_t>& tokens,
                               const kernels::TableRows& rows, std::int64_t width,
                               std::int64_t off) {
  const auto dout = kernels::narrowed<T>(random_values(off + std::ssize(tokens) * width, 9));
  const Floats before = random_values(off + rows.count * width, 10);
  Floats expected = before;
  kernels::embedding_backward<T>(kHere, tokens, rows, dout.data() + off, width,
                                 expected.data() + off);
  const Floats got = in_every_order([&] {
    Floats dtable = before;
    elements_of<T>(table()).embedding_backward(kHere, tokens, rows, dout.data() + off, width,
                                               dtable.data() + off);
    return dtable;
  });
  EXPECT_TRUE(same_bits(expected, got)) << tokens.size() << " " << width;
}

TYPED_TEST(EmulatedElements, EmbeddingGradientsHaveTheBitsOfTheCpu) {
  for (const std::int64_t count : {0, 1, 2, 5, 70, 511, 513, 1100}) {
    const auto tokens = random_tokens(count, 40);
    for (const std::int64_t width : {1, 7, 8, 64, 129}) {
      expect_embedding_backward<TypeParam>(tokens, {0, 40}, width, 0);
    }
    expect_embedding_backward<TypeParam>(tokens, {0, 40}, 8, 1);
    expect_embedding_backward<TypeParam>(tokens, {15, 10}, 16, 0);      // a part, with id 20
    expect_embedding_backward<TypeParam>(tokens, {15, 10, 20}, 16, 0);  // which is the pad
    expect_embedding_backward<TypeParam>(tokens, {0, 40, 20}, 3, 0);
    expect_embedding_backward<TypeParam>(tokens, {40, 10}, 3, 0);  // no token is here
  }
  expect_embedding_backward<TypeParam>(random_tokens(9, 3), {0, 3}, 3000, 0);  // several blocks
  // The id equals the last token's place: what lies before the sorted rows in memory.
  expect_embedding_backward<TypeParam>(std::vector<std::int32_t>(512, 511), {0, 512}, 2, 0);
}

TEST(EmulatedEmbedding, GradientsOfManyTokensAreSortedInPieces) {
  const auto tokens = random_tokens(16384 + 700, 5000);
  const Floats dout = random_values(std::ssize(tokens), 9);
  Floats expected = random_values(5000, 10);
  Floats got = expected;
  kernels::embedding_backward<float>(kHere, tokens, {0, 5000}, dout.data(), 1, expected.data());
  table().fp32.embedding_backward(kHere, tokens, {0, 5000}, dout.data(), 1, got.data());
  EXPECT_TRUE(same_bits(expected, got));
}

TYPED_TEST(EmulatedElements, BiasesHaveTheBitsOfTheCpu) {
  using T = TypeParam;
  for (const std::int64_t width : kWidths) {
    for (const std::int64_t rows : {0, 1, 2, 5, 40}) {
      for (const std::int64_t off : {0, 1}) {
        const auto bias = this->random(width + off, 1);
        const auto y = this->random(rows * width + off, 2);
        auto expected = y;
        auto got = y;
        kernels::add_bias<T>(kHere, {rows, width}, bias.data() + off, expected.data() + off);
        this->kernels_of().add_bias(kHere, {rows, width}, bias.data() + off, got.data() + off);
        EXPECT_TRUE(same_bits(expected, got)) << rows << " " << width;
      }
    }
  }
}

TYPED_TEST(EmulatedElements, ResidualsAndScalesHaveTheBitsOfTheCpu) {
  using T = TypeParam;
  for (const std::int64_t count : kCounts) {
    for (const std::int64_t off : {0, 1}) {
      const Floats x = random_values(count + off, 1);
      const auto residual = this->random(count + off, 2);
      auto expected = poisoned<T>(count + off);
      auto got = expected;
      kernels::add_residual<T>(kHere, count, x.data() + off, residual.data() + off,
                               expected.data() + off);
      this->kernels_of().add_residual(kHere, count, x.data() + off, residual.data() + off,
                                      got.data() + off);
      EXPECT_TRUE(same_bits(expected, got)) << count;
      auto in_place = residual;
      if (off == 1) in_place[0] = expected[0];
      this->kernels_of().add_residual(kHere, count, x.data() + off, in_place.data() + off,
                                      in_place.data() + off);
      EXPECT_TRUE(same_bits(expected, in_place)) << count;
      kernels::scale<T>(kHere, count, 0.3F, expected.data() + off);
      this->kernels_of().scale(kHere, count, 0.3F, got.data() + off);
      EXPECT_TRUE(same_bits(expected, got)) << count;
    }
  }
  this->kernels_of().scale(kHere, 0, 0.3F, nullptr);
}

TYPED_TEST(EmulatedElements, DropoutsHaveTheBitsOfTheCpu) {
  using T = TypeParam;
  const kernels::Dropout by{0x123456789ABCDEFULL, 0x50000000U, 1.4545454F};
  for (const std::int64_t count : kCounts) {
    for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{5}, std::uint64_t{16},
                                      std::uint64_t{63}, (std::uint64_t{1} << 36) + 8}) {
      for (const std::int64_t off : {0, 1, 8}) {
        const auto x = this->random(count + off, 3);
        auto expected = x;
        kernels::dropout<T>(kHere, by, first, count, expected.data() + off);
        const auto got = in_every_order([&] {
          auto out = x;
          this->kernels_of().dropout(kHere, by, first, count, out.data() + off);
          return out;
        });
        EXPECT_TRUE(same_bits(expected, got)) << count << " from " << first << ", off " << off;
      }
    }
  }
  auto x = this->random(100, 3);
  const auto before = x;
  this->kernels_of().dropout(kHere, {}, 3, 100, x.data());
  EXPECT_TRUE(same_bits(before, x));
  this->kernels_of().dropout(kHere, by, 3, 0, x.data());
  EXPECT_TRUE(same_bits(before, x));
}

TYPED_TEST(EmulatedElements, SumsOfColumnsAreThoseOfFp64) {
  for (const std::int64_t width : kWidths) {
    for (const std::int64_t rows : {0, 1, 2, 5, 16, 17, 300, 2500}) {
      if (rows * width > 300000) continue;
      for (const std::int64_t off : {0, 1}) {
        const auto x = this->random(rows * width + off, 1);
        const Floats before = random_values(width, 2);
        Doubles expected = kernels::to_double(before);
        for (std::int64_t i = 0; i < rows * width; ++i) {
          expected[static_cast<std::size_t>(i % width)] +=
              static_cast<double>(core::to_float(x[static_cast<std::size_t>(i + off)]));
        }
        const Floats got = in_every_order([&] {
          Floats sums = before;
          this->kernels_of().column_sums(kHere, {rows, width}, x.data() + off, sums.data());
          return sums;
        });
        EXPECT_LE(kernels::difference(expected, got), 1e-5) << rows << " " << width;
      }
    }
  }
}

TEST(EmulatedColumnSums, WideRowsFindRoomForTheirParts) {
  constexpr std::int64_t kRows = 40;
  constexpr std::int64_t kWidth = 60000;
  const Floats x(kRows * kWidth, 0.5F);
  Floats sums(kWidth, 1.0F);
  table().fp32.column_sums(kHere, {kRows, kWidth}, x.data(), sums.data());
  EXPECT_EQ(sums, Floats(kWidth, 21.0F));
}

TEST(EmulatedMoves, ClearWritesZerosAndNothingElse) {
  for (const std::int64_t count : kCounts) {
    for (const std::int64_t off : {0, 1}) {
      Floats out(static_cast<std::size_t>(count + off), 3.0F);
      table().clear(kHere, count, out.data() + off);
      EXPECT_EQ(std::count(out.begin(), out.end(), 0.0F), count);
      EXPECT_EQ(out[0], off == 1 ? 3.0F : 0.0F);
    }
  }
  table().clear(kHere, 0, nullptr);
}

TEST(EmulatedMoves, BytesAreCopiedFromEveryPlaceToEveryPlace) {
  std::vector<std::byte> from(5000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + i / 256);
  for (const std::int64_t bytes : {0, 1, 2, 4, 6, 15, 16, 17, 100, 4096, 4999}) {
    for (const std::size_t a : {0U, 1U, 2U, 4U, 16U}) {
      for (const std::size_t b : {0U, 1U, 2U, 8U}) {
        if (a + static_cast<std::size_t>(bytes) > from.size()) continue;
        auto expected = poisoned<std::byte>(bytes + 8);
        auto got = expected;
        if (bytes > 0) {
          std::memcpy(expected.data() + b, from.data() + a, static_cast<std::size_t>(bytes));
        }
        table().copy_bytes(kHere, bytes, from.data() + a, got.data() + b);
        EXPECT_EQ(expected, got) << bytes << " from " << a << " to " << b;
      }
    }
  }
}

TEST(EmulatedMoves, SpacedRowsAreCopiedAndWhatLiesBetweenStays) {
  for (const std::int64_t width : {0, 1, 2, 4, 12, 16, 50, 64, 129, 256}) {
    for (const std::int64_t rows : {0, 1, 2, 5, 100}) {
      for (const std::int64_t gap : {0, 1, 2, 4, 16}) {
        for (const std::int64_t from_gap : {0, 3, 32}) {
          std::vector<std::byte> from(static_cast<std::size_t>(rows * (width + from_gap)));
          for (std::size_t i = 0; i < from.size(); ++i) {
            from[i] = static_cast<std::byte>(i * 7 + i / 256);
          }
          auto expected = poisoned<std::byte>(rows * (width + gap));
          auto got = expected;
          kernels::copy_spaced_bytes(kHere, {rows, width}, {from.data(), width + from_gap},
                                     {expected.data(), width + gap});
          table().copy_spaced_bytes(kHere, {rows, width}, {from.data(), width + from_gap},
                                    {got.data(), width + gap});
          EXPECT_EQ(expected, got) << rows << " " << width << " " << gap << " " << from_gap;
        }
      }
    }
  }
}

// Two partial results whose keys are apart, as their sums of exponentials say.
struct Partials {
  explicit Partials(const kernels::PartialShape& shape)
      : now(random_values(shape.queries * shape.heads * shape.head_dim, 1)),
        all(random_values(shape.queries * shape.heads * shape.head_dim, 2)),
        now_sums(random_values(shape.queries * shape.heads, 3, 20.0F)),
        all_sums(random_values(shape.queries * shape.heads, 4, 20.0F)) {
    for (std::size_t i = 0; i < now_sums.size(); i += 5) {
      now_sums[i] = -std::numeric_limits<float>::infinity();
    }
  }
  Floats now;
  Floats all;
  Floats now_sums;
  Floats all_sums;
};

TEST(EmulatedMerge, IsTheSoftmaxOverTheKeysOfBoth) {
  for (const kernels::PartialShape shape : {kernels::PartialShape{1, 1, 1},
                                            {2, 3, 7},
                                            {33, 2, 8},
                                            {70, 3, 64},
                                            {31, 1, 129},
                                            {65, 2, 192}}) {
    Partials at(shape);
    const double scale = 1.0 / std::sqrt(static_cast<double>(shape.head_dim));
    Doubles expected;
    Doubles expected_sums(at.all_sums.size());
    for (std::int64_t row = 0; row < shape.queries * shape.heads; ++row) {
      const auto sum =
          static_cast<std::size_t>(row % shape.heads * shape.queries + row / shape.heads);
      const double of_now = std::exp(scale * static_cast<double>(at.now_sums[sum]));
      const double of_all = std::exp(scale * static_cast<double>(at.all_sums[sum]));
      expected_sums[sum] = std::log(of_now + of_all) / scale;
      for (std::int64_t i = 0; i < shape.head_dim; ++i) {
        const auto element = static_cast<std::size_t>(row * shape.head_dim + i);
        expected.push_back((of_now * static_cast<double>(at.now[element]) +
                            of_all * static_cast<double>(at.all[element])) /
                           (of_now + of_all));
      }
    }
    const Floats merged = in_every_order([&] {
      Floats all = at.all;
      Floats sums = at.all_sums;
      table().merge_partial_softmax(kHere, shape, {at.now.data(), at.now_sums.data()},
                                    {all.data(), sums.data()});
      all.insert(all.end(), sums.begin(), sums.end());
      return all;
    });
    const auto outs = static_cast<std::ptrdiff_t>(at.all.size());
    EXPECT_LE(kernels::difference(expected, Floats(merged.begin(), merged.begin() + outs)), 1e-6);
    EXPECT_LE(kernels::difference(expected_sums, Floats(merged.begin() + outs, merged.end())),
              1e-6);
  }
}

// Not even where the part that saw no key holds NaN.
TEST(EmulatedMerge, WhatSawNoKeyChangesNothing) {
  const kernels::PartialShape shape{40, 2, 12};
  Partials at(shape);
  at.now.assign(at.now.size(), NAN);
  at.now_sums.assign(at.now_sums.size(), -std::numeric_limits<float>::infinity());
  Floats all = at.all;
  Floats sums = at.all_sums;
  table().merge_partial_softmax(kHere, shape, {at.now.data(), at.now_sums.data()},
                                {all.data(), sums.data()});
  EXPECT_EQ(all, at.all);
  EXPECT_EQ(sums, at.all_sums);
  table().merge_partial_softmax(kHere, {0, 2, 12}, {}, {});
}

}  // namespace
}  // namespace fm::emulated
