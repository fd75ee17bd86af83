// Checkpoints of several runs in one folder: a start never slides from one run into another.
#include "checkpoint/lineage.h"

#include <gtest/gtest.h>

#include "checkpoint/find_checkpoint.h"
#include "checkpoint/manifest.h"
#include "tests/checkpoint/checkpoint_cases.h"
#include "tests/checkpoint/damage.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::listing;

class RunsOfOneFolder : public ::testing::Test {
 protected:
  const fs::path& output() const { return folder_.path(); }
  fs::path at(std::int64_t step) const { return output() / core::concat("global_step", step); }

  void save(const Lineage& run, std::initializer_list<std::int64_t> steps, int keep_last = 0) {
    for (const std::int64_t step : steps) {
      ASSERT_TRUE(testing::save_state(output(), step, 2, keep_last, run).durable);
    }
  }
  Lineage fresh() { return testing::lineage_of_start(output(), Resume::kNever); }
  Lineage back_to(std::int64_t step) {
    return testing::lineage_of_start(output(), Resume::kPath, at(step));
  }
  std::int64_t resumed() { return testing::load_state(output(), 2); }

  testing::ScratchFolder folder_;
};

TEST_F(RunsOfOneFolder, AFreshStartIsResumedNotTheOlderRunOfHigherSteps) {
  save(fresh(), {50, 100});
  const Lineage second = fresh();
  EXPECT_EQ(resumed(), 100) << "nothing of the second is saved yet";
  save(second, {25, 30});
  EXPECT_EQ(resumed(), 30);
}

TEST_F(RunsOfOneFolder, TheRunThatBeganLastIsKnownWithoutLatest) {
  save(fresh(), {100});
  save(fresh(), {25});
  std::ofstream(output() / "latest") << "global_step100";  // killed before it was written anew
  EXPECT_EQ(resumed(), 25);
  fs::remove(output() / "latest");
  EXPECT_EQ(resumed(), 25);
}

TEST_F(RunsOfOneFolder, PruningLeavesOtherRunsAlone) {
  save(fresh(), {90, 100});
  save(fresh(), {25, 50}, 1);
  EXPECT_EQ(listing(output()), "global_step100 global_step50 global_step90 latest");
}

TEST_F(RunsOfOneFolder, GoingBackKeepsTheParentAndDoesNotJumpAhead) {
  save(fresh(), {20, 40, 100});
  save(back_to(40), {50}, 1);
  EXPECT_EQ(listing(output()), "global_step100 global_step20 global_step40 global_step50 latest");
  EXPECT_EQ(resumed(), 50);
  save(testing::lineage_of_start(output(), Resume::kAuto), {60}, 1);  // it carries on
  EXPECT_EQ(listing(output()), "global_step100 global_step20 global_step40 global_step60 latest");
  EXPECT_EQ(resumed(), 60);
}

TEST_F(RunsOfOneFolder, DamageFallsBackAlongTheParents) {
  save(fresh(), {20, 40, 45, 100});
  save(back_to(40), {50});
  testing::flip_byte(at(50) / "state.json", 3);
  EXPECT_EQ(resumed(), 40);
  testing::flip_byte(at(40) / "state.json", 3);
  EXPECT_EQ(resumed(), 20);
}

TEST_F(RunsOfOneFolder, DamageOfAFreshRunNeverResumesAnother) {
  save(fresh(), {100});
  save(fresh(), {25});
  const auto refusal = [&] {
    return testing::message_of<core::MachineError>(12, [&] { resumed(); });
  };
  testing::flip_byte(at(25) / "state.json", 3);
  EXPECT_NE(refusal().find("--resume PATH"), std::string::npos) << refusal();
  fs::rename(at(25), output() / ".bad-global_step25-0123abcd");
  EXPECT_NE(refusal().find("global_step100 is of another run"), std::string::npos) << refusal();
}

TEST_F(RunsOfOneFolder, NothingNewerThanALatestWithoutAManifestCounts) {
  save(fresh(), {100});
  save(fresh(), {25});
  fs::remove(at(25) / "MANIFEST.json");
  EXPECT_NE(testing::message_of<core::MachineError>(12, [&] { resumed(); }).find("MANIFEST.json"),
            std::string::npos);
}

TEST_F(RunsOfOneFolder, CheckpointsWithoutTheFieldsLoadAndCountAsTheOldestRun) {
  save({}, {40, 100});
  EXPECT_EQ(testing::file_content(at(40) / "MANIFEST.json").find("\"run\""), std::string::npos);
  EXPECT_EQ(resumed(), 100);
  EXPECT_EQ(testing::lineage_of_start(output(), Resume::kAuto), Lineage{});
  save(back_to(40), {50});
  EXPECT_EQ(resumed(), 50);
  fs::remove_all(at(50) / "state.json");
  EXPECT_EQ(resumed(), 40);
}

TEST_F(RunsOfOneFolder, TheManifestSaysWhereItsRunBegan) {
  const Lineage first = fresh();
  EXPECT_EQ(first.number, 1);
  EXPECT_EQ(first.run.size(), 16U);
  save(first, {40});
  const Lineage second = back_to(40);
  EXPECT_EQ(second.number, 2);
  EXPECT_NE(second.run, first.run);
  EXPECT_EQ(second.parent_run, first.run);
  EXPECT_EQ(second.parent_tag, "global_step40");
  save(second, {50});
  EXPECT_EQ(open_manifest(at(50)).lineage, second);
}

}  // namespace
}  // namespace fm::checkpoint
