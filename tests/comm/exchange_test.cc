// Who posts what first where two ranks, or a ring, exchange messages.
#include "comm/exchange.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace fm::comm {
namespace {

// One rank of a group. Keeps what messages it posts.
class Posts : public Communicator {
 public:
  Posts(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string describe() const override { return "posts"; }
  Sums sums() const override { return Sums::kAnyOrder; }
  Pending send(ConstSpan, int peer) override { return add(rank_, peer); }
  Pending receive(Span, int peer) override { return add(peer, rank_); }
  Pending all_gather(ConstSpan, Span) override { return {}; }
  Pending reduce_scatter_to(ConstSpan, Span, SumVisitor*) override { return {}; }
  Pending all_reduce(Span) override { return {}; }
  Pending all_to_all(ConstSpan, Span) override { return {}; }
  Pending broadcast(Span, int) override { return {}; }
  Pending barrier() override { return {}; }
  std::unique_ptr<Communicator> split(std::span<const int>) override { return nullptr; }

  using Way = std::pair<int, int>;  // from, to
  std::deque<Way> posted;

 private:
  Pending add(int from, int to) {
    posted.emplace_back(from, to);
    return {};
  }
  int rank_, size_;
};

// What is left when every post blocks its rank until the peer posts the other end.
std::size_t left_of(std::vector<Posts> ranks) {
  const auto meets = [&ranks](const Posts::Way& way) {
    const auto is_next = [&](int rank) {
      const auto& posted = ranks[static_cast<std::size_t>(rank)].posted;
      return !posted.empty() && posted.front() == way;
    };
    return is_next(way.first) && is_next(way.second);
  };
  std::size_t left = 0;
  for (const Posts& rank : ranks) left += rank.posted.size();
  for (std::size_t at = 0; at < ranks.size(); ++at) {
    if (ranks[at].posted.empty() || !meets(ranks[at].posted.front())) continue;
    const auto [from, to] = ranks[at].posted.front();
    ranks[static_cast<std::size_t>(from)].posted.pop_front();
    ranks[static_cast<std::size_t>(to)].posted.pop_front();
    return left_of(std::move(ranks));
  }
  return left;
}

TEST(Exchange, GetsOnWhereEveryPostBlocksUntilItsPeerPosts) {
  for (const int size : {2, 3, 4, 5, 8}) {
    std::vector<Posts> ring;
    for (int rank = 0; rank < size; ++rank) {
      ring.emplace_back(rank, size);
      exchange(ring.back(), {}, (rank + 1) % size, {}, (rank + size - 1) % size);
      ASSERT_EQ(ring.back().posted.size(), 2);
    }
    EXPECT_EQ(left_of(ring), 0) << size << " ranks";
  }
  std::vector<Posts> stuck;
  for (int rank = 0; rank < 3; ++rank) {
    stuck.emplace_back(rank, 3).send({}, (rank + 1) % 3);
    stuck.back().receive({}, (rank + 2) % 3);
  }
  EXPECT_EQ(left_of(stuck), 6) << "where all send first, nobody gets on";
}

}  // namespace
}  // namespace fm::comm
