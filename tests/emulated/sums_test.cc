// Sums of CUDA devices: the bits of this CPU's.
#include "kernels/pointwise/sums.h"

#include "tests/emulated/emulated_case.h"

namespace fm::emulated {
namespace {

using kernels::Doubles;
using kernels::Floats;
using kernels::random_values;

const core::Work kHere;
constexpr std::int64_t kCounts[] = {1, 3, 16, 1000, 1024, 1025, 5000, 40007};

TEST(EmulatedSums, SquaresHaveTheBitsOfTheCpu) {
  for (const std::int64_t count : kCounts) {
    const Floats values = random_values(count, 7, 3.0F);
    Doubles expected(static_cast<std::size_t>(kernels::norm_blocks(count)));
    kernels::squared_norm(kHere, values, expected);
    EXPECT_EQ(expected, in_every_order([&] {
                Doubles blocks = poisoned<double>(kernels::norm_blocks(count));
                table().squared_norm(kHere, values, blocks);
                return blocks;
              }));
    const Floats more = random_values(count, 8);
    Floats sum = values;
    kernels::add_squares(kHere, count, more.data(), sum.data(), expected);
    Floats into = values;
    Doubles blocks = poisoned<double>(kernels::norm_blocks(count));
    table().add_squares(kHere, count, more.data(), into.data(), blocks);
    EXPECT_EQ(into, sum);
    EXPECT_EQ(blocks, expected);
  }
}

TEST(EmulatedSums, AdditionsHaveTheBitsOfTheCpu) {
  for (const std::int64_t count : kCounts) {
    for (const std::size_t off : {0U, 1U}) {  // aligned and not
      const Floats a = random_values(count + 1, 1);
      Floats expected = random_values(count + 1, 2);
      Floats got = expected;
      kernels::add(kHere, count, a.data() + off, expected.data() + off);
      table().add(kHere, count, a.data() + off, got.data() + off);
      EXPECT_EQ(got, expected);
      Floats both = a;
      Floats both_expected = a;
      kernels::tree_add_to_both(kHere, count, both_expected.data() + off, expected.data() + off);
      table().tree_add_to_both(kHere, count, both.data() + off, got.data() + off);
      EXPECT_EQ(got, expected);
      EXPECT_EQ(both, both_expected);
    }
  }
}

TEST(EmulatedSums, TheTreeOverRowsHasTheBitsOfTheCpu) {
  for (std::size_t rows = 1; rows <= 64; ++rows) {
    constexpr std::int64_t kCount = 131;
    std::vector<Floats> data;
    std::vector<const float*> pointers;
    for (std::size_t r = 0; r < rows; ++r) {
      data.push_back(random_values(kCount, static_cast<std::uint32_t>(r), 1e3F));
    }
    for (const Floats& row : data) pointers.push_back(row.data());
    Floats expected(kCount);
    kernels::tree_add(kHere, pointers, kCount, expected.data());
    Floats got = poisoned<float>(kCount);
    table().tree_add(kHere, pointers, kCount, got.data());
    EXPECT_EQ(got, expected) << rows;
  }
}

TEST(EmulatedSums, FindsWhatReachesALimit) {
  for (const float value : {100.0F, -100.0F, 1e30F, NAN, INFINITY, -INFINITY}) {
    Floats values = random_values(5001, 3);
    std::int32_t found = -1;
    table().any_reaches(kHere, values, 100.0F, &found);
    EXPECT_EQ(found, 0);
    for (const std::size_t at : {0U, 4998U, 5000U}) {
      Floats other = values;
      other[at] = value;
      table().any_reaches(kHere, other, 100.0F, &found);
      EXPECT_EQ(found, 1) << value;
    }
  }
}

}  // namespace
}  // namespace fm::emulated
