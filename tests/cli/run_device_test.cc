// What --device, --device_memory and --device_card come to.
#include "cli/run_device.h"

#include <gtest/gtest.h>

#include "tests/cli/expect_refusal.h"

namespace fm::cli {
namespace {

TEST(RunDevice, RanksOnOneCardAreNamed) {
  EXPECT_EQ(shared_cards({"a GPU-1", "a GPU-2", "b GPU-1"}), "");
  EXPECT_EQ(shared_cards({"a GPU-1", "a GPU-2", "a GPU-1"}), "ranks 0, 2: a GPU-1");
  EXPECT_EQ(shared_cards({"a GPU-1", "b GPU-2", "b GPU-2", "a GPU-1"}),
            "ranks 0, 3: a GPU-1; ranks 1, 2: b GPU-2");
  EXPECT_EQ(shared_cards({"", ""}), "");
}

TEST(RunDevice, ACardOfAPlanHasMemoryAndAName) {
  const PlanDevice named = plan_device(core::Bytes(0), "H200");
  EXPECT_EQ(named.memory.count(), 141'000'000'000);
  EXPECT_EQ(named.card, "H200");
  const PlanDevice measured = plan_device(core::Bytes(80'000'000'000), "");
  EXPECT_EQ(measured.memory.count(), 80'000'000'000);
  EXPECT_EQ(measured.card, "H100");
  EXPECT_EQ(plan_device(core::Bytes(7'000'000'000), "").card, "");
  EXPECT_TRUE(holds(refusal_of([] { plan_device(core::Bytes(0), "Voodoo"); }),
                    "--device_card must name a GPU that is known: B200, H200"));
}

}  // namespace
}  // namespace fm::cli
