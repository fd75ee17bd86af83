// What --device, --device_memory and --device_card come to.
#include "cli/run_device.h"

#include <gtest/gtest.h>

#include "core/process.h"
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

device::CudaSearch shows(int cards, int architecture = 90) {
  device::CudaSearch search;
  for (int i = 0; i < cards; ++i) {
    search.cards.push_back({.name = "H100",
                            .uuid = "GPU-" + std::to_string(i),
                            .architecture = architecture,
                            .memory = {},
                            .free = {}});
  }
  return search;
}

comm::LaunchInfo local(int rank, int size) {
  comm::LaunchInfo launch;
  launch.local_rank = rank;
  launch.local_size = size;
  return launch;
}

TEST(RunDevice, AutoTakesTheCardOfTheLocalRankOrTheOnlyOneThatIsShown) {
  const std::string host = core::host_name();
  EXPECT_EQ(found_card(shows(8), {}, local(5, 8)).card, host + " GPU-5");
  // One card for each task: every rank sees its own alone.
  EXPECT_EQ(found_card(shows(1), {}, local(5, 8)).card, host + " GPU-0");
  EXPECT_EQ(found_card(shows(1), {}, local(5, 8)).why, "");
}

TEST(RunDevice, AutoSaysWhyARankHasNoCard) {
  const std::string host = core::host_name();
  EXPECT_EQ(found_card({}, {}, local(0, 1)).why, host + " has none");
  EXPECT_EQ(found_card(shows(4), {}, local(5, 8)).why, host + " has 8 ranks, and shows them 4");
  EXPECT_EQ(found_card(shows(1, 75), {}, local(0, 1)).why,
            "H100 of " + host + " has architecture 7.5");
  device::CudaSearch hidden;
  hidden.answers.files = {"/dev/nvidia0"};
  hidden.problem = "hidden";
  EXPECT_EQ(found_card(hidden, {}, local(0, 1)).why, host + ": hidden");
  hidden.is_fault = true;
  EXPECT_THROW(found_card(hidden, {}, local(0, 1)), core::MachineError);
}

TEST(RunDevice, ALocalRankIsWhatTheLauncherSays) {
  comm::run_ranks(3, [](comm::Communicator& world) {
    comm::LaunchInfo launch;
    launch.local_rank = 5 - world.rank();
    EXPECT_EQ(counted_on_host(launch, shows(4), world).local_rank, 5 - world.rank());
  });
}

// Four variables start a rank by hand, and LOCAL_RANK is none of them. Rank 1 was told its own.
TEST(RunDevice, ALocalRankThatNobodySaysIsCountedOnTheHost) {
  comm::run_ranks(4, [](comm::Communicator& world) {
    comm::LaunchInfo launch;
    launch.says_local_rank = world.rank() == 1;
    launch.local_rank = world.rank() == 1 ? 3 : 0;
    const std::vector<int> expected = {0, 3, 1, 2};
    const comm::LaunchInfo counted = counted_on_host(launch, shows(4), world);
    EXPECT_EQ(counted.local_rank, expected[static_cast<std::size_t>(world.rank())]);
    EXPECT_EQ(counted.local_size, world.rank() == 1 ? 1 : 3);
  });
}

// Two pairs, each with GPUs of its own.
TEST(RunDevice, RanksThatSeeOtherGpusCountFromTheFirst) {
  comm::run_ranks(4, [](comm::Communicator& world) {
    device::CudaSearch search = shows(2);
    for (device::CudaCard& card : search.cards) card.uuid += world.rank() < 2 ? "a" : "b";
    comm::LaunchInfo launch;
    launch.says_local_rank = false;
    const comm::LaunchInfo counted = counted_on_host(launch, search, world);
    EXPECT_EQ(counted.local_rank, world.rank() % 2);
    EXPECT_EQ(counted.local_size, 2);
  });
}

TEST(RunDevice, ACardOfAPlanHasMemoryAndAName) {
  const PlanDevice named = plan_device(core::Bytes(0), "H200");
  EXPECT_EQ(named.memory.count(), 141'000'000'000);
  EXPECT_EQ(named.card, "H200");
  EXPECT_EQ(plan_device(core::Bytes(0), "nvidia a100-sxm4-40gb").memory.count(), 40'000'000'000);
  const PlanDevice both = plan_device(core::Bytes(60'000'000'000), "H100");
  EXPECT_EQ(both.memory.count(), 60'000'000'000);
  EXPECT_EQ(both.card, "H100");
  EXPECT_TRUE(holds(refusal_of([] { plan_device(core::Bytes(0), "RTX A4000"); }),
                    "--device_card must name a GPU that is known: GB200, B200"));
}

// H100, H100 PCIe and A100 have 80 GB: a plan that took one of them would tell a wrong time.
TEST(RunDevice, MemoryAloneIsNoCard) {
  const PlanDevice plan = plan_device(core::Bytes(80'000'000'000), "");
  EXPECT_EQ(plan.memory.count(), 80'000'000'000);
  EXPECT_EQ(plan.card, "");
}

}  // namespace
}  // namespace fm::cli
