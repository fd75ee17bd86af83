// Which moves may begin: those of one place, or of the same memory, follow each other as they were
// asked for.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/types.h"
#include "offload/disk/disk_engine.h"

namespace fm::offload {

// A read, a write, or a range that is held: a read that is over when its holder goes.
//
// Invariant: what MoveOrder writes belongs to whoever calls it; what the loop writes is its own
//            until `done`.
struct DiskMove {
  BlockDirection direction = BlockDirection::kRead;
  bool held = false;
  core::Bytes at = {}, size = {};
  std::span<std::byte> memory = {};  // of a write: read only
  std::int64_t number = 0;           // among reads or writes of the store, from 1 on
  std::int64_t order = 0;            // among all that was asked for
  // Of MoveOrder.
  int waits_for = 0;
  std::vector<std::shared_ptr<DiskMove>> followers = {};
  bool done = false;
  // Of the loop.
  int blocks_left = 0;
  bool flips = false;        // a fault: a bit of what is read
  std::string problem = {};  // "" or why it failed
};
using DiskMovePtr = std::shared_ptr<DiskMove>;

// Thread: under the store's lock.
class MoveOrder {
 public:
  // Behind those that it overlaps, where one of the two writes, and those whose memory it shares,
  // where one of the two reads into it. Where `behind` is not null it belongs to what was held
  // then: of the first ones only what was asked for before that counts.
  void add(const DiskMovePtr& move, const DiskMove* behind = nullptr);
  void end(const DiskMovePtr& move);
  // Nothing will end any more what is under way: it fails now, with this problem.
  void fail_all(const std::string& problem);
  // Those that may begin and have not been taken, in the order of asking.
  std::vector<DiskMovePtr> take_ready();
  // Nothing is under way; what is held does not count.
  bool idle() const { return moves_ == 0; }

 private:
  std::list<DiskMovePtr> active_;
  std::vector<DiskMovePtr> ready_;
  std::int64_t asked_ = 0;
  int moves_ = 0;
};

}  // namespace fm::offload
