// The twin of tests/emulated/emulated_case.h: the same tests, on a card. Their arrays lie in pinned
// memory, which a card reads and writes where it is (tests/on_device/device_main.cc).
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/variants/table.h"
#include "tests/emulated/case_values.h"

namespace fm::emulated {

// The table of the card's kernels: each entry runs on its queue, whatever Work it is given, and
// returns when it is done.
const kernels::DeviceKernels& table();
// A card has no order of threads to choose: run() again must give the same bits.
template <class Run>
auto in_every_order(const Run& run) {
  const auto first = run();
  const auto other = run();
  EXPECT_EQ(first.size(), other.size());
  if (!first.empty()) {
    EXPECT_EQ(0, std::memcmp(first.data(), other.data(), first.size() * sizeof(first[0])))
        << "a second run has other bits";
  }
  return first;
}

// Emulation shows that.
template <class Run>
void expect_every_barrier_needed(const Run&) {}

}  // namespace fm::emulated
