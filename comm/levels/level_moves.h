// The two moves that the verbs between hosts are made of: a sum of everybody's values, and pieces
// that come to everybody.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "comm/levels/levels.h"
#include "comm/levels/node_sums.h"

namespace fm::comm {

using Parts = std::vector<Chain::Part>;

// Every rank gets the sum of its part of the values. Each host adds its nodes, and sends them to
// those who need them.
struct Sum {
  Message shape;
  ConstSpan values = {};
  Cut cut;
  Span out = {};  // this rank's part
  SumVisitor* visitor = nullptr;
};
void append_sum(Levels& levels, const Sum& sum, Parts& parts);

// A piece goes from its owner to one rank of every other host, which shares it there.
struct Piece {
  int owner = 0;
  Span place;  // where it ends up here
};

// Invariant: every rank of the group lists the same owners in the same order.
// Lifetime:  as long as the chain it was appended to.
class Gather {
 public:
  Gather(Levels& levels, const Message& shape, const std::vector<Piece>& pieces);

  // Where this rank's own piece must lie when the first part of the gather begins.
  Span own() const;
  static void append(const std::shared_ptr<Gather>& gather, Parts& parts);

 private:
  struct Held {
    Piece piece;
    int holder = 0;      // the rank of this host that has it first
    core::Bytes offset;  // in what the holder shares
  };
  Span here(const Held& held) const;
  void exchange(Operation& operation) const;
  void copy(std::span<std::byte* const> rows) const;

  Levels& levels_;
  Message shape_;
  std::vector<Held> held_;
  core::Bytes own_;      // what this rank shares
  core::Bytes longest_;  // what any rank of this host shares, at most
  std::optional<Lease> shared_;
};

}  // namespace fm::comm
