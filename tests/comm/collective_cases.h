// One body of collective tests for every backend: threads, tcp and MPI processes run the same.
// Data tells its address: element i on rank r holds 100 r + i. Random values are compared, bit
// for bit, with a tree of sums written here independently of the library.
#pragma once

#include <atomic>
#include <functional>

#include "comm/communicator.h"

namespace fm::comm {

// Throws std::runtime_error naming the case, rank and element of the first difference.
void throw_unless_cases_hold(Communicator& world);

// Two ranks: a receive that was dropped before its message came is never written. Throws alike.
void throw_if_abandoned_receive_is_written(Communicator& world);

// A body for ranks, and what runs it once per rank: run_ranks or the like.
using RankBody = std::function<void(Communicator&)>;
// How many ranks came to the end of `body`: those that it did not throw on.
inline int ranks_through(const RankBody& body, const std::function<void(const RankBody&)>& run) {
  std::atomic<int> through = 0;
  run([&](Communicator& world) {
    body(world);
    ++through;
  });
  return through;
}

}  // namespace fm::comm
