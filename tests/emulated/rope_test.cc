// Rotary position embedding of CUDA devices.
#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/pointwise/heads.h"
#include "tests/emulated/emulated_case.h"

namespace fm::emulated {
namespace {

using kernels::Doubles;
using kernels::Floats;
using kernels::random_values;
using kernels::RopePairs;

const core::Work kHere;

struct Size {
  std::int64_t batch, seq_len, heads, half_dim, head_dim;
};
constexpr Size kSizes[] = {
    {1, 1, 1, 1, 2},      {2, 3, 1, 3, 7},      {1, 5, 7, 4, 8},    {2, 17, 3, 8, 16},
    {1, 40, 9, 8, 24},    {3, 2, 33, 16, 80},   {1, 9, 2, 64, 128}, {5, 1, 4, 33, 66},
    {1, 30, 2, 300, 601}, {1, 2, 5, 512, 1024}, {2, 70, 1, 2, 4},
};

Floats frequencies(std::int64_t count) {
  Floats values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(
        std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(count))));
  }
  return values;
}

// The distance from |value| as a float to the next.
double place_of(double value) {
  const auto magnitude = static_cast<float>(std::abs(value));
  return static_cast<double>(std::nextafter(magnitude, INFINITY)) - static_cast<double>(magnitude);
}

struct Table {
  Floats cos, sin;
};
Table random_table(std::int64_t positions, std::int64_t half_dim) {
  Table table;
  for (const float angle : random_values(positions * half_dim, 3, 2.0F)) {
    table.cos.push_back(std::cos(angle));
    table.sin.push_back(std::sin(angle));
  }
  return table;
}

// By the formula in fp64: (a, b) becomes (a cos - b sin, b cos + a sin).
Doubles rotated(const Size& size, RopePairs pairs, double direction, const Table& table,
                const Floats& x) {
  Doubles out(x.begin(), x.end());
  const std::int64_t half = size.half_dim;
  for (std::int64_t head = 0; head < size.batch * size.seq_len * size.heads; ++head) {
    const std::int64_t position = head / size.heads % size.seq_len;
    for (std::int64_t i = 0; i < half; ++i) {
      const bool halves = pairs == RopePairs::kHalves;
      const auto at = static_cast<std::size_t>(head * size.head_dim + (halves ? i : 2 * i));
      const auto other = at + static_cast<std::size_t>(halves ? half : 1);
      const auto angle = static_cast<std::size_t>(position * half + i);
      const auto cosine = static_cast<double>(table.cos[angle]);
      const auto sine = static_cast<double>(table.sin[angle]) * direction;
      const auto a = static_cast<double>(x[at]);
      const auto b = static_cast<double>(x[other]);
      out[at] = a * cosine - b * sine;
      out[other] = b * cosine + a * sine;
    }
  }
  return out;
}

// Where documents begin, for each token: every row has one of one token, of two, of three, ...
std::vector<std::int32_t> document_starts(std::int64_t rows, std::int64_t row) {
  std::vector<std::int32_t> starts;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t first = 0, length = 1; first < row; first += length++) {
      starts.insert(starts.end(), static_cast<std::size_t>(std::min(length, row - first)),
                    static_cast<std::int32_t>(first));
    }
  }
  return starts;
}

// What a result lacks beyond the one rounding to T.
template <class T>
double gap(const Doubles& expected, const std::vector<T>& got) {
  if constexpr (std::is_same_v<T, float>) {
    return kernels::difference(expected, got);
  } else {
    return kernels::beyond_rounding<T>(expected, got);
  }
}

template <class T>
class EmulatedRope : public testing::Test {};
using AllTypes = testing::Types<float, core::Bf16, core::F16>;
TYPED_TEST_SUITE(EmulatedRope, AllTypes);

TYPED_TEST(EmulatedRope, TurnsPairsByTheFormula) {
  using T = TypeParam;
  for (const Size& size : kSizes) {
    const core::BatchShape shape{size.batch, size.seq_len};
    const Table table_TD = random_table(size.seq_len, size.half_dim);
    for (const RopePairs pairs : {RopePairs::kHalves, RopePairs::kNeighbours}) {
      const kernels::RopeTable by{table_TD.cos.data(), table_TD.sin.data(), size.half_dim,
                                  size.head_dim, pairs};
      for (const std::size_t off : {0U, 1U}) {  // aligned and not
        const std::int64_t count = shape.tokens() * size.heads * size.head_dim;
        const auto before = kernels::random_narrows<T>(count, 9);
        const auto turned = [&](auto* kernel) {
          return in_every_order([&] {
            auto x = poisoned<T>(count + static_cast<std::int64_t>(off));
            std::copy(before.begin(), before.end(), x.begin() + static_cast<std::ptrdiff_t>(off));
            kernel(kHere, by, shape, size.heads, x.data() + off);
            x.erase(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(off));
            return x;
          });
        };
        const auto& all = elements_of<T>(table());
        const Floats x = kernels::to_floats(before);
        EXPECT_LT(gap(rotated(size, pairs, 1.0, table_TD, x), turned(all.rope)), 1e-6)
            << size.half_dim << " of " << size.head_dim;
        EXPECT_LT(gap(rotated(size, pairs, -1.0, table_TD, x), turned(all.rope_inverse)), 1e-6)
            << size.half_dim << " of " << size.head_dim;
      }
    }
  }
}

struct HeadsCase {
  core::BatchShape shape;
  kernels::HeadGroups groups;
  std::int64_t half_dim;  // 0: nothing turns
};
constexpr HeadsCase kHeads[] = {{{1, 1}, {1, 1, 1, 2}, 1},      {{2, 3}, {1, 4, 2, 8}, 3},
                                {{1, 5}, {3, 2, 1, 16}, 8},     {{2, 9}, {1, 7, 3, 48}, 16},
                                {{1, 17}, {1, 32, 8, 64}, 32},  {{3, 2}, {2, 3, 1, 80}, 40},
                                {{2, 4}, {1, 3, 3, 32}, 0},     {{1, 3}, {5, 1, 1, 24}, 8},
                                {{1, 2}, {1, 2, 1, 1024}, 512}, {{70, 1}, {1, 2, 1, 16}, 8}};

// The arrays of a case: those apart by the order of heads that HeadGroups says.
template <class T>
struct Heads {
  std::vector<T> all, q, k, v;

  Heads(const HeadsCase& at, std::vector<T> whole) : all(std::move(whole)) {
    const auto [groups, queries, keys, d] = at.groups;
    for (std::size_t head = 0; head < all.size() / static_cast<std::size_t>(d); ++head) {
      const auto of_group = static_cast<std::int64_t>(head) % (queries + 2 * keys);
      auto& to = of_group < queries ? q : of_group < queries + keys ? k : v;
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(head) * d;
      to.insert(to.end(), from, from + d);
    }
  }
};

TYPED_TEST(EmulatedRope, HeadsTurnWhileTheyMoveAsTheyDoInPlace) {
  using T = TypeParam;
  const auto& all = elements_of<T>(table());
  const auto& fused = elements_of<T>(table().fused);
  for (const HeadsCase& at : kHeads) {
    const auto [groups, queries, keys, d] = at.groups;
    const std::int64_t tokens = at.shape.tokens();
    const Table angles = random_table(at.shape.seq_len, at.half_dim);
    const auto starts = document_starts(at.shape.batch, at.shape.seq_len);
    for (const auto& [pairs, documents] :
         {std::pair(RopePairs::kHalves, false), std::pair(RopePairs::kNeighbours, false),
          std::pair(RopePairs::kHalves, true), std::pair(RopePairs::kNeighbours, true)}) {
      const kernels::RopeTable by{.cos = angles.cos.data(),
                                  .sin = angles.sin.data(),
                                  .half_dim = at.half_dim,
                                  .head_dim = d,
                                  .pairs = pairs,
                                  .starts = documents ? starts.data() : nullptr};
      const auto turned = [&](auto* kernel, std::vector<T> heads, std::int64_t count) {
        if (at.half_dim > 0) kernel(kHere, by, at.shape, count, heads.data());
        return heads;
      };
      const Heads<T> from(at, kernels::random_narrows<T>(tokens * at.groups.heads() * d, 5));
      const std::int64_t wide = tokens * groups * queries * d;
      const std::int64_t narrow = tokens * groups * keys * d;
      for (const std::size_t off : {0U, 1U}) {
        const auto begin = static_cast<std::ptrdiff_t>(off);
        const auto moved = in_every_order([&] {
          auto whole = from.all;
          whole.insert(whole.begin(), off, T{});
          auto apart = poisoned<T>(wide + 2 * narrow + begin);
          T* const q = apart.data() + off;
          fused.split_heads(kHere, by, at.shape, at.groups,
                            {whole.data() + off, q, q + wide, q + wide + narrow});
          apart.erase(apart.begin(), apart.begin() + begin);
          return apart;
        });
        auto expected = turned(all.rope, from.q, groups * queries);
        const auto k = turned(all.rope, from.k, groups * keys);
        expected.insert(expected.end(), k.begin(), k.end());
        expected.insert(expected.end(), from.v.begin(), from.v.end());
        ASSERT_EQ(moved.size(), expected.size());
        EXPECT_EQ(0, std::memcmp(moved.data(), expected.data(), moved.size() * sizeof(T)))
            << "heads of " << d << ", groups " << groups << ", off " << off;

        auto q = from.q;
        auto other = from.k;
        auto v = from.v;
        auto whole = poisoned<T>(std::ssize(from.all) + begin);
        fused.join_heads(kHere, by, at.shape, at.groups,
                         {whole.data() + off, q.data(), other.data(), v.data()});
        whole.erase(whole.begin(), whole.begin() + begin);
        const Heads<T> back(at, whole);
        EXPECT_EQ(
            0, std::memcmp(back.q.data(), turned(all.rope_inverse, from.q, groups * queries).data(),
                           back.q.size() * sizeof(T)));
        EXPECT_EQ(0,
                  std::memcmp(back.k.data(), turned(all.rope_inverse, from.k, groups * keys).data(),
                              back.k.size() * sizeof(T)));
        EXPECT_EQ(0, std::memcmp(back.v.data(), from.v.data(), back.v.size() * sizeof(T)));
      }
    }
  }
}

TYPED_TEST(EmulatedRope, EveryDocumentTurnsAsARowOfItsOwn) {
  using T = TypeParam;
  const auto& all = elements_of<T>(table());
  constexpr std::int64_t kRow = 12;
  constexpr std::int64_t kWidth = 3 * 16;  // 3 heads
  const Table angles = random_table(kRow, 8);
  kernels::RopeTable by{angles.cos.data(), angles.sin.data(), 8, 16, RopePairs::kHalves};
  const auto before = kernels::random_narrows<T>(2 * kRow * kWidth, 9);
  const auto starts = document_starts(2, kRow);
  for (auto* const kernel : {all.rope, all.rope_inverse}) {
    auto expected = before;
    for (std::int64_t first = 0; first < 2 * kRow;) {
      const std::int64_t start = starts[static_cast<std::size_t>(first)];
      std::int64_t end = first + 1;
      while (end % kRow != 0 && starts[static_cast<std::size_t>(end)] == start) ++end;
      kernel(kHere, by, {1, end - first}, 3, expected.data() + first * kWidth);
      first = end;
    }
    auto by_documents = by;
    by_documents.starts = starts.data();
    const auto got = in_every_order([&] {
      auto x = before;
      kernel(kHere, by_documents, {2, kRow}, 3, x.data());
      return x;
    });
    EXPECT_EQ(0, std::memcmp(got.data(), expected.data(), got.size() * sizeof(T)));
    kernel(kHere, by, {2, kRow}, 3, expected.data());
    EXPECT_NE(0, std::memcmp(got.data(), expected.data(), got.size() * sizeof(T)));
  }
}

TYPED_TEST(EmulatedRope, WhatIsBehindThePairsStays) {
  using T = TypeParam;
  const Table angles = random_table(6, 8);
  const kernels::RopeTable by{angles.cos.data(), angles.sin.data(), 8, 24, RopePairs::kHalves};
  const auto before = kernels::random_narrows<T>(6 * 2 * 24, 9);
  auto x = before;
  elements_of<T>(table()).rope(kHere, by, {1, 6}, 2, x.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i % 24 < 16) continue;
    EXPECT_EQ(0, std::memcmp(&x[i], &before[i], sizeof(T))) << i;
  }
}

TYPED_TEST(EmulatedRope, MoreRowsThanAGridHas) {
  using T = TypeParam;
  const float cosine = 0.0F;
  const float sine = 1.0F;
  const kernels::RopeTable by{&cosine, &sine, 1, 2, RopePairs::kHalves};
  const auto before = kernels::random_narrows<T>(2 * 65537, 9);
  auto x = before;
  elements_of<T>(table()).rope(kHere, by, {65537, 1}, 1, x.data());
  for (std::size_t i = 0; i < x.size(); i += 2) {  // (a, b) becomes (-b, a)
    ASSERT_EQ(core::to_float(x[i]), -core::to_float(before[i + 1])) << i;
    ASSERT_EQ(core::to_float(x[i + 1]), core::to_float(before[i])) << i;
  }
}

TYPED_TEST(EmulatedRope, NoTokensAndNoHeadsStartNothing) {
  using T = TypeParam;
  const kernels::RopeTable by{nullptr, nullptr, 8, 16, RopePairs::kHalves};
  elements_of<T>(table()).rope(kHere, by, {0, 6}, 2, nullptr);
  elements_of<T>(table()).rope(kHere, by, {1, 6}, 0, nullptr);
  elements_of<T>(table()).rope_inverse(kHere, by, {1, 0}, 2, nullptr);
}

TEST(EmulatedRopeTable, IsWithinAPlaceOfCosineAndSine) {
  for (const std::int64_t half_dim : {1, 3, 64}) {
    for (const std::int64_t positions : {1, 5, 131}) {
      const Floats inv_freq = frequencies(half_dim);
      const auto made = [&](bool cosines) {
        Floats cos = poisoned<float>(positions * half_dim);
        Floats sin = cos;
        table().rope_table(kHere, inv_freq, positions, cos.data(), sin.data());
        return cosines ? cos : sin;
      };
      const Floats cos = in_every_order([&] { return made(true); });
      const Floats sin = in_every_order([&] { return made(false); });
      for (std::size_t i = 0; i < cos.size(); ++i) {
        const auto position = static_cast<float>(i / inv_freq.size());
        const auto angle = static_cast<double>(inv_freq[i % inv_freq.size()] * position);
        EXPECT_NEAR(cos[i], std::cos(angle), place_of(std::cos(angle)));
        EXPECT_NEAR(sin[i], std::sin(angle), place_of(std::sin(angle)));
      }
    }
  }
  table().rope_table(kHere, {}, 5, nullptr, nullptr);
  table().rope_table(kHere, frequencies(4), 0, nullptr, nullptr);
}

}  // namespace
}  // namespace fm::emulated
