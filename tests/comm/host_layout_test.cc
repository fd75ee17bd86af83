// Which sums a host makes by itself, written out by hand.
#include "comm/host_layout.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/check.h"

namespace fm::comm {
namespace {

// "0-1@0 2-3@1": ranks and host of every node.
std::string nodes_of(const HostLayout& layout) {
  std::string text;
  for (const HostNode& node : layout.nodes()) {
    text += core::concat(text.empty() ? "" : " ", node.first, "-", node.first + node.count - 1, "@",
                         node.host);
  }
  return text;
}

// The whole tree as a sum of ranks: "((0+1)+2)".
std::string tree_of_ranks(int first, int count) {
  if (count == 1) return std::to_string(first);
  int left = 1;
  while (left * 2 < count) left *= 2;
  return core::concat("(", tree_of_ranks(first, left), "+",
                      tree_of_ranks(first + left, count - left), ")");
}

// The same from nodes and additions.
std::string sum_of(const HostLayout& layout) {
  std::vector<std::string> values;
  for (const HostNode& node : layout.nodes()) {
    values.push_back(tree_of_ranks(node.first, node.count));
  }
  for (const Addition& addition : layout.additions()) {
    values.push_back(core::concat("(", values.at(static_cast<std::size_t>(addition.left)), "+",
                                  values.at(static_cast<std::size_t>(addition.right)), ")"));
  }
  return values.back();
}

std::string nodes(const std::vector<int>& host_of) { return nodes_of(HostLayout(host_of)); }

TEST(HostLayout, NeighboursOfOneHostAreOneNode) {
  EXPECT_EQ(nodes({0, 0, 1, 1}), "0-1@0 2-3@1");
  EXPECT_EQ(nodes({0, 0, 0, 0, 1, 1}), "0-3@0 4-5@1");
  EXPECT_EQ(nodes({0, 0, 0}), "0-2@0");
}

TEST(HostLayout, OthersAreAFew) {
  EXPECT_EQ(nodes({0, 0, 0, 1, 1, 1}), "0-1@0 2-2@0 3-3@1 4-5@1");
  EXPECT_EQ(nodes({7, 3, 3}), "0-0@0 1-1@1 2-2@1");  // (0+1) comes first
  EXPECT_EQ(nodes({0, 1, 0, 1}), "0-0@0 1-1@1 2-2@0 3-3@1");
}

TEST(HostLayout, NodesAndAdditionsAreTheTreeOverAllRanks) {
  for (const std::vector<int>& host_of : {std::vector{0, 0, 1, 1},
                                          {0, 0, 0, 1, 1, 1},
                                          {0, 1, 1},
                                          {0, 1, 2},
                                          {0, 1, 0, 1, 0},
                                          {0, 0, 0, 0, 0, 1, 1},
                                          {1, 0, 0, 0, 2, 2, 1, 1}}) {
    EXPECT_EQ(sum_of(HostLayout(host_of)), tree_of_ranks(0, static_cast<int>(host_of.size())));
  }
}

TEST(HostLayout, EveryRankStandsForItsOwnPlaceOnOtherHosts) {
  const HostLayout even(std::vector{0, 0, 1, 1});
  EXPECT_EQ(even.clients(0), (std::vector{2}));
  EXPECT_EQ(even.clients(1), (std::vector{3}));
  EXPECT_EQ(even.proxy(0, 3), 1);
  const HostLayout uneven(std::vector{0, 0, 0, 1});  // one rank carries what three need
  EXPECT_EQ(uneven.clients(3), (std::vector{0, 1, 2}));
  EXPECT_EQ(uneven.clients(0), (std::vector{3}));
  EXPECT_EQ(uneven.clients(1), (std::vector<int>{}));
}

}  // namespace
}  // namespace fm::comm
