#include "core/tree.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fm::core {
namespace {

// A number that remembers how it was added.
struct Term {
  std::string text;
  friend Term operator+(const Term& a, const Term& b) {
    return {"(" + a.text + "+" + b.text + ")"};
  }
};

std::string sum_of(int first, int count) {
  std::vector<Term> terms;
  for (int i = 0; i < count; ++i) terms.push_back({std::to_string(first + i)});
  return tree_sum(std::span(terms)).text;
}

TEST(TreeSum, PairsNeighboursAndPassesALeftoverUp) {
  EXPECT_EQ(sum_of(0, 1), "0");
  EXPECT_EQ(sum_of(0, 2), "(0+1)");
  EXPECT_EQ(sum_of(0, 3), "((0+1)+2)");
  EXPECT_EQ(sum_of(0, 4), "((0+1)+(2+3))");
  EXPECT_EQ(sum_of(0, 5), "(((0+1)+(2+3))+4)");
  EXPECT_EQ(sum_of(0, 6), "(((0+1)+(2+3))+(4+5))");
  EXPECT_EQ(sum_of(0, 7), "(((0+1)+(2+3))+((4+5)+6))");
}

TEST(TreeSum, OfNothingIsZero) {
  std::vector<double> none;
  EXPECT_EQ(tree_sum(std::span(none)), 0.0);
}

TEST(TreeSum, ATreeOverTreesOfTwoToTheKIsTheTreeOverAll) {
  for (const int group : {1, 2, 4, 8}) {
    for (int groups = 1; groups <= 9; ++groups) {
      std::vector<Term> partial;
      for (int i = 0; i < groups; ++i) partial.push_back({sum_of(i * group, group)});
      EXPECT_EQ(tree_sum(std::span(partial)).text, sum_of(0, group * groups));
    }
  }
}

}  // namespace
}  // namespace fm::core
