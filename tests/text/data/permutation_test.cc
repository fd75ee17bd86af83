#include "text/data/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace fm::data {
namespace {

std::vector<std::int64_t> order_of(std::int64_t size, std::uint64_t seed, std::int64_t epoch) {
  const Permutation permutation(size, seed, epoch);
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = permutation(static_cast<std::int64_t>(i));
  }
  return order;
}

TEST(Permutation, EverySizeVisitsEveryRowOnce) {
  std::vector<std::int64_t> sizes = {1000, 4096, 4097};
  for (std::int64_t size = 1; size <= 70; ++size) sizes.push_back(size);
  for (const std::int64_t size : sizes) {
    std::vector<std::int64_t> order = order_of(size, 3407, size % 3);
    std::sort(order.begin(), order.end());
    for (std::size_t i = 0; i < order.size(); ++i) {
      ASSERT_EQ(order[i], static_cast<std::int64_t>(i)) << "size " << size;
    }
  }
}

TEST(Permutation, EpochsAndSeedsDiffer) {
  EXPECT_NE(order_of(100, 1, 0), order_of(100, 1, 1));
  EXPECT_NE(order_of(100, 1, 0), order_of(100, 2, 0));
  EXPECT_EQ(order_of(100, 1, 5), order_of(100, 1, 5));
}

TEST(Permutation, EpochZeroIsShuffled) {
  std::vector<std::int64_t> sorted = order_of(100, 3407, 0);
  std::sort(sorted.begin(), sorted.end());
  EXPECT_NE(order_of(100, 3407, 0), sorted);
}

// 2,400 epochs of four rows: each of the 24 orders is expected 100 times; the standard deviation
// is 9.8, so 5 of them is 49.
TEST(Permutation, AllOrdersOfFourRowsAreAboutEquallyLikely) {
  std::map<std::vector<std::int64_t>, int> times;
  for (std::int64_t epoch = 0; epoch < 2400; ++epoch) ++times[order_of(4, 3407, epoch)];
  EXPECT_EQ(times.size(), 24U);
  for (const auto& [order, count] : times) EXPECT_NEAR(count, 100, 49);
}

// A resumed run must see the order it saw before, whatever the version of the program. Values from
// a Python rewrite of Philox4x32-10 (checked against Random123's kat_vectors), FNV-1a and the
// Feistel network of the header.
TEST(Permutation, OrderStaysAsItWas) {
  EXPECT_EQ(order_of(10, 3407, 0), (std::vector<std::int64_t>{8, 2, 9, 5, 3, 6, 0, 1, 4, 7}));
  EXPECT_EQ(order_of(10, 3407, 1), (std::vector<std::int64_t>{4, 6, 8, 5, 9, 3, 2, 1, 7, 0}));
  std::vector<std::int64_t> first = order_of(100, 7, 1);
  first.resize(8);
  EXPECT_EQ(first, (std::vector<std::int64_t>{79, 81, 76, 95, 68, 42, 25, 47}));
}

}  // namespace
}  // namespace fm::data
