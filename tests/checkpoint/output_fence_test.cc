// Who may write below an output directory that a newer start has taken.
#include "checkpoint/output_fence.h"

#include <gtest/gtest.h>

#include <fstream>

#include "checkpoint/output_lock.h"
#include "checkpoint/save_checkpoint.h"
#include "comm/meet/world.h"
#include "tests/checkpoint/checkpoint_cases.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;

class OutputFenceTest : public ::testing::Test {
 protected:
  const fs::path& output() const { return folder_.path(); }
  // What a start on another host writes, where locks do not reach this one.
  void take_over(const std::string& words) const { folder_.write("LOCK", words + "\n"); }

  testing::ScratchFolder folder_;
};

constexpr const char* kNewer =
    R"({"host":"node7","pid":4711,"since":86400,"tag":"00c0ffee","generation":8})";

TEST_F(OutputFenceTest, EachStartIsOneGenerationAboveTheLast) {
  for (int generation = 1; generation <= 3; ++generation) {
    const OutputLock lock(output());
    EXPECT_EQ(generation_in(lock.holder()), generation);
    EXPECT_EQ(generation_in(first_line_of_lock(output())), generation);
  }
  take_over(kNewer);
  EXPECT_EQ(generation_in(OutputLock(output()).holder()), 9);
  for (const std::string& words :
       {std::string("what an editor left"), std::string(100'000, 'x'),
        std::string(R"({"generation":9223372036854775807})"), std::string("[1]")}) {
    take_over(words);
    EXPECT_EQ(generation_in(OutputLock(output()).holder()), 1) << words.substr(0, 50);
  }
}

// A shorter text behind a longer one, and what older versions wrote.
TEST_F(OutputFenceTest, TheFileHoldsTheWordsOfTheStartAlone) {
  take_over(R"({"host":")" + std::string(500, 'x') + R"(","pid":1})");
  const OutputLock lock(output());
  EXPECT_EQ(testing::file_content(output() / "LOCK"), lock.holder() + "\n");
  EXPECT_EQ(generation_in(lock.holder()), 1);
}

TEST_F(OutputFenceTest, StandsWhileTheLockHasTheWordsOfThisStart) {
  OutputLock lock(output());
  const OutputFence fence;
  fence.arm(output(), lock.holder());
  EXPECT_EQ(fence.problem(), "");
  fs::remove(output() / "LOCK");
  EXPECT_EQ(fence.problem(), "");  // the next save makes it again
  EXPECT_NE(lock.renew(), "");
  EXPECT_EQ(fence.problem(), "");
  EXPECT_EQ(generation_in(first_line_of_lock(output())), 1);
  take_over("");
  EXPECT_EQ(fence.problem(), "");
  take_over("what an editor left");
  EXPECT_EQ(fence.problem(), "");
}

TEST_F(OutputFenceTest, FallsForEverWhenANewerStartHasTakenTheFolder) {
  const OutputLock lock(output());
  const OutputFence fence;
  fence.arm(output(), lock.holder());
  const OutputFence copy = fence;  // of another thread
  take_over(kNewer);
  const std::string message = testing::message_of<core::MachineError>(13, [&] { fence.check(); });
  for (const char* part : {"host node7, pid 4711, started 1970-01-02 00:00:00 UTC, generation 8",
                           "this run has generation 1"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  fs::remove(output() / "LOCK");
  EXPECT_EQ(copy.problem(), message);
}

// Somebody deleted LOCK between the two, so that numbers began anew.
TEST_F(OutputFenceTest, FallsForAStartWithTheSameNumber) {
  std::string older;
  {
    const OutputLock lock(output());
    older = lock.holder();
  }
  const OutputFence fence;
  fence.arm(output(), older);
  fs::remove(output() / "LOCK");
  const OutputLock newer(output());
  EXPECT_EQ(generation_in(newer.holder()), generation_in(older));
  EXPECT_NE(fence.problem(), "");
}

// Hosts that do not share the directory: another file, or none.
TEST_F(OutputFenceTest, GuardsNothingWhereTheLockOfRank0WasNeverSeen) {
  const testing::ScratchFolder elsewhere;
  const OutputLock of_rank0(elsewhere.path());
  const OutputFence fence;
  fence.arm(output(), of_rank0.holder());
  EXPECT_EQ(fence.problem(), "");
  take_over(kNewer);
  EXPECT_EQ(fence.problem(), "");
  fence.arm(output(), "");  // --dry_run
  EXPECT_EQ(fence.problem(), "");
}

TEST_F(OutputFenceTest, WhatNoProgramWroteIsToldAsItIs) {
  const OutputLock lock(output());
  const OutputFence fence;
  fence.arm(output(), lock.holder());
  take_over(R"({"pid":[1],"since":"noon","host":5})");
  EXPECT_NE(fence.problem().find("host 5, pid [1], started at an unknown time, generation unknown"),
            std::string::npos)
      << fence.problem();
}

TEST_F(OutputFenceTest, ASaveBehindItChangesNothing) {
  ASSERT_TRUE(testing::save_state(output(), 5, 2).durable);
  const OutputLock lock(output());
  const OutputFence fence;
  fence.arm(output(), lock.holder());
  take_over(kNewer);
  comm::run_ranks(2, [&](comm::Communicator& world) {
    const testing::OwnedState part = testing::part_of_state(6, world.rank(), 2);
    const SaveRequest request{.output_dir = output(),
                              .step = 6,
                              .files = testing::state_files(),
                              .mine = part.slices,
                              .state_json = "{}",
                              .keep_last = 1,
                              .fence = fence};
    EXPECT_EQ(testing::message_of<core::MachineError>(13, [&] { save_checkpoint(request, world); }),
              fence.problem());
  });
  EXPECT_EQ(testing::listing(output()), "LOCK global_step5 latest");
}

}  // namespace
}  // namespace fm::checkpoint
