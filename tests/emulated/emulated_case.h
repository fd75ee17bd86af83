// What the tests of emulated kernels share: every order of threads, and outputs that are poisoned.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/cuda/table.h"
#include "tests/emulated/block.h"
#include "tests/emulated/case_values.h"

namespace fm::emulated {

inline constexpr Order kOrders[] = {Order::kForward, Order::kBackward, Order::kByTurns};

// The table of the kernels of CUDA devices, whose blocks run here.
inline const kernels::DeviceKernels& table() { return kernels::cuda::own_kernels(); }
// The result of run() under every order of threads, which must have the same bits.
template <class Run>
auto in_every_order(const Run& run) {
  set_rules({Order::kForward, -1});
  const auto first = run();
  for (const Order order : {Order::kBackward, Order::kByTurns}) {
    set_rules({order, -1});
    const auto other = run();
    EXPECT_EQ(first.size(), other.size());
    EXPECT_EQ(0, std::memcmp(first.data(), other.data(), first.size() * sizeof(first[0])))
        << "the order of threads changes the result";
  }
  set_rules({});
  return first;
}

// How many of the kernel's barriers run() shows to be needed: without barrier i, for i = 0, 1, ...,
// its result differs under some order of threads, or threads wait for ever. A barrier that nothing
// shows to be needed is red.
template <class Run>
void expect_every_barrier_needed(const Run& run) {
  set_rules({});
  const auto right = run();
  const int barriers = barriers_seen();
  EXPECT_GT(barriers, 0);
  for (int i = 0; i < barriers; ++i) {
    bool needed = false;
    for (const Order order : kOrders) {
      set_rules({order, i});
      try {
        const auto other = run();
        needed =
            needed || std::memcmp(right.data(), other.data(), right.size() * sizeof(right[0])) != 0;
      } catch (const std::runtime_error&) {
        needed = true;
      }
    }
    EXPECT_TRUE(needed) << "nothing shows that barrier " << i << " of " << barriers << " is needed";
  }
  set_rules({});
}

}  // namespace fm::emulated
