// In which order the tiles of the embedding and the head take part in a micro-batch. Used by
// RankRules.
#pragma once

#include <compare>
#include <map>
#include <set>
#include <string>

#include "pipeline/instruction.h"
#include "pipeline/placement.h"

namespace fm::pipeline {

// Invariant: it has counted the accepted instructions.
// Thread:    one.
// Lifetime:  the placement outlives it.
class TileOrder {
 public:
  explicit TileOrder(const Placement& units) : units_(units) {}

  // "" when an instruction may be next as far as tiles are concerned, else the reason why not.
  std::string check(const Instruction& at);

 private:
  struct Pass {
    int micro;
    Op op;
    int end;  // unit 0 or the head
    auto operator<=>(const Pass&) const = default;
  };

  std::string check_end(const Instruction& at, int end);
  std::string check_tile(const Instruction& at);
  UnitRange tiles_of(int end) const {
    return end == 0 ? units_.embedding_tiles() : units_.head_tiles();
  }
  // "" when all tiles of an end have gone through a pass.
  std::string needs_all(const Pass& pass) const;
  std::string needs_end(const Pass& pass) const;

  const Placement& units_;
  std::map<Pass, int> through_;  // how many tiles, one after the other
  std::set<Pass> ends_;          // instructions of the ends themselves
};

}  // namespace fm::pipeline
