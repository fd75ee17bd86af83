// Cuts of deepspeed/tests/unit/utils/test_partition_balanced.py and unit/runtime/utils/
// test_partition.py, and the cut by cost.
#include "pipeline/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/check.h"

namespace fm::pipeline {
namespace {

using Cuts = std::vector<int>;

double spread(const std::vector<double>& weights, int parts) {
  const Cuts cuts = partition_balanced(weights, parts);
  std::vector<double> sums;
  for (std::size_t part = 0; part + 1 < cuts.size(); ++part) {
    sums.push_back(
        std::accumulate(weights.begin() + cuts[part], weights.begin() + cuts[part + 1], 0.0));
  }
  return std::ranges::max(sums) - std::ranges::min(sums);
}

TEST(PartitionUniform, GivesTheRemainderToTheFirstParts) {
  EXPECT_EQ(partition_uniform(8, 4), (Cuts{0, 2, 4, 6, 8}));
  EXPECT_EQ(partition_uniform(10, 4), (Cuts{0, 3, 6, 8, 10}));
  EXPECT_EQ(partition_uniform(2, 4), (Cuts{0, 1, 2, 2, 2}));
}

TEST(PartitionBalanced, HasTheCutsOfDeepSpeed) {
  EXPECT_EQ(spread({1, 2, 1}, 4), 2);
  EXPECT_EQ(spread({1, 1, 1, 1}, 4), 0);
  EXPECT_EQ(spread({1, 1, 1, 1, 1}, 4), 1);
  EXPECT_EQ(spread({1, 1, 1, 1, 0, 1}, 4), 1);
  EXPECT_EQ(partition_balanced(std::vector<double>{0, 1, 2, 3, 3, 3}, 4), (Cuts{0, 3, 4, 5, 6}));
  EXPECT_EQ(partition_balanced(std::vector<double>{0, 1.1, 1.9, 3, 3, 3}, 4),
            (Cuts{0, 3, 4, 5, 6}));
  EXPECT_EQ(partition_balanced(std::vector<double>{0, 1.1, 30, 3}, 3), (Cuts{0, 2, 3, 4}));
}

// What partition_balanced of DeepSpeed 0.19 returns.
TEST(PartitionBalanced, TakesTheLaterOfEqualCutsAsDeepSpeedDoes) {
  struct Row {
    std::vector<double> weights;
    Cuts cuts;
  };
  for (const Row& row :
       {Row{{1, 1, 1}, {0, 2, 3}}, Row{{1, 1, 1, 1, 1}, {0, 3, 5}},
        Row{{1, 1, 1, 1, 1, 1, 1}, {0, 3, 5, 7}}, Row{{0, 1, 1, 1, 1, 1, 1, 0}, {0, 3, 5, 8}},
        Row{{3, 1, 4, 1, 5, 9, 2, 6}, {0, 5, 6, 8}}, Row{{0, 1.1, 1.9, 3, 30}, {0, 4, 5}}}) {
    EXPECT_EQ(partition_balanced(row.weights, static_cast<int>(row.cuts.size()) - 1), row.cuts);
  }
}

// Every cut of small rows against all others.
TEST(PartitionByCost, HasTheLeastCostOfTheSlowestPart) {
  for (int seed = 0; seed < 200; ++seed) {
    std::vector<double> costs;
    for (int i = 0; i < 7; ++i) costs.push_back((seed * 7 + i * i * 5 + i * seed) % 6);
    costs.back() += 3;
    double least = 1e9;
    for (int a = 1; a < 6; ++a) {
      for (int b = a + 1; b < 7; ++b) {
        const auto at = costs.begin();
        least = std::min(
            least, std::max({std::accumulate(at, at + a, 0.0), std::accumulate(at + a, at + b, 0.0),
                             std::accumulate(at + b, costs.end(), 0.0)}));
      }
    }
    const Cuts cuts = partition_by_cost(costs, 3);
    double most = 0;
    for (std::size_t part = 0; part < 3; ++part) {
      ASSERT_LT(cuts[part], cuts[part + 1]);
      most = std::max(
          most, std::accumulate(costs.begin() + cuts[part], costs.begin() + cuts[part + 1], 0.0));
    }
    EXPECT_NEAR(most, least, 1e-9) << seed;
  }
}

TEST(PartitionByCost, SpreadsWhatIsLeftAndGivesTheFirstPartsMore) {
  EXPECT_EQ(partition_by_cost(std::vector<double>{0, 1, 1, 1, 1, 1, 0}, 2), (Cuts{0, 4, 7}));
  EXPECT_EQ(partition_by_cost(std::vector<double>{0, 1, 1, 1, 1, 1, 1, 0}, 4),
            (Cuts{0, 3, 5, 6, 8}));
  // Llama-3.2-1B: 16 layers, a head of 4.3 layers.
  std::vector<double> llama(17, 1.0);
  llama.front() = 0.0;
  llama.push_back(4.3);
  EXPECT_EQ(partition_by_cost(llama, 2), (Cuts{0, 11, 18}));  // 10 layers, 6 and the head
}

Cuts cuts_of(const Placement& placement) {
  Cuts cuts = {0};
  for (const Chunk& chunk : placement.chunks()) cuts.push_back(chunk.units.last);
  return cuts;
}

const UnitWeights kSixLayers{{0, 1, 1, 1, 1, 1, 1, 8}, {40, 10, 10, 10, 10, 10, 10, 41}};

Cuts cut(const std::string& method, int parts) {
  return cuts_of(split_units(partition_named(method), kSixLayers, {.pipe_ranks = parts}, false));
}

TEST(PartitionMethods, EachHasItsCut) {
  EXPECT_EQ(cut("cost", 2), (Cuts{0, 6, 8}));  // the head has a layer beside it
  EXPECT_EQ(cut("best", 2), (Cuts{0, 6, 8}));
  EXPECT_EQ(cut("uniform", 3), (Cuts{0, 3, 6, 8}));
  EXPECT_EQ(cut("parameters", 2), (Cuts{0, 4, 8}));
  EXPECT_EQ(cut("type:transformerlayer", 3),
            partition_balanced(std::vector<double>{0, 1, 1, 1, 1, 1, 1, 0}, 3));
  EXPECT_EQ(cut("TYPE:Block|Head", 2),
            partition_balanced(std::vector<double>{0, 1, 1, 1, 1, 1, 1, 1}, 2));
  EXPECT_EQ(cut("1,2,3", 3), (Cuts{0, 2, 4, 8}));
  EXPECT_EQ(cut("0,5,1", 3), (Cuts{0, 1, 6, 8}));  // the embedding alone
}

TEST(PartitionMethods, NamesReadBackAsTheyWere) {
  for (const char* name : {"cost", "uniform", "parameters", "type:Block", "3,2,1"}) {
    EXPECT_EQ(name_of(partition_named(name)), name);
  }
  EXPECT_EQ(name_of(partition_named("BEST")), "cost");
}

TEST(PartitionMethods, WhatDoesNotFitIsAUserError) {
  for (const char* wrong : {"evenly", "3,x", "", "-1,7"}) {
    EXPECT_THROW(partition_named(wrong), core::UserError) << wrong;
  }
  for (const char* wrong : {"1,2,4", "3,3", "6,0,0", "3,3,0", "type:Convolution", "type:("}) {
    EXPECT_THROW(cut(wrong, 3), core::UserError) << wrong;
  }
  EXPECT_THROW(cut("cost", 9), core::UserError);
}

}  // namespace
}  // namespace fm::pipeline
