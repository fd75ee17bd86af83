// Checkpoints of several runs in one folder: a start never slides from one run into another.
#include "checkpoint/lineage.h"

#include <gtest/gtest.h>

#include "checkpoint/find_checkpoint.h"
#include "checkpoint/load_checkpoint.h"
#include "checkpoint/manifest.h"
#include "comm/meet/world.h"
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

TEST_F(RunsOfOneFolder, WhatIsSavedAfterAFallBackToTheParentCounts) {
  save(fresh(), {20, 40});
  const Lineage second = back_to(40);
  save(second, {50});
  testing::flip_byte(at(50) / "state.json", 3);
  const Lineage third = testing::lineage_of_start(output(), Resume::kAuto);
  EXPECT_EQ(third, second);
  fs::rename(at(50), output() / ".bad-global_step50-0123abcd");
  save(third, {45, 60});
  EXPECT_EQ(resumed(), 60);
}

TEST_F(RunsOfOneFolder, ASaveKeepsWhatAnotherRunSavedOfTheStep) {
  const Lineage first = fresh();
  save(first, {40, 50});
  save(fresh(), {40});
  const std::string kept = "global_step40-of-" + first.run.substr(0, 8);
  EXPECT_EQ(listing(output()), "global_step40 " + kept + " global_step50 latest");
  EXPECT_EQ(open_manifest(output() / kept).lineage, first);
  EXPECT_EQ(resumed(), 40);
  save(testing::lineage_of_start(output(), Resume::kAuto), {40});  // its own is replaced
  EXPECT_EQ(listing(output()), "global_step40 " + kept + " global_step50 latest");
  save(first, {50});
  fs::remove_all(at(40));
  fs::rename(output() / kept, at(40));
  save(fresh(), {40, 50});
  EXPECT_EQ(listing(output()), "global_step40 " + kept + " global_step50 " + "global_step50-of-" +
                                   first.run.substr(0, 8) + " latest");
}

TEST_F(RunsOfOneFolder, ARestartGoesOnWithTheRunOfItsJobOnly) {
  const std::string job = hash_of_job("launcher 1");
  const auto begun = [&](Resume resume, const std::vector<std::string>& restarted) {
    bool answer = false;
    comm::run_ranks(2, [&](comm::Communicator& world) {
      const bool mine = has_begun(output(), resume, restarted, world);
      if (world.rank() == 1) answer = mine;
    });
    return answer;
  };
  EXPECT_EQ(job.size(), 16U);
  EXPECT_FALSE(begun(Resume::kNever, {job})) << "nothing is there";
  save(testing::lineage_of_start(output(), Resume::kNever, "", {hash_of_job("launcher 0")}), {40});
  EXPECT_FALSE(begun(Resume::kNever, {job})) << "of another job";
  save(testing::lineage_of_start(output(), Resume::kNever, "", {hash_of_job("x"), job}), {10});
  EXPECT_TRUE(begun(Resume::kNever, {job}));
  EXPECT_FALSE(begun(Resume::kNever, {}));
  EXPECT_FALSE(begun(Resume::kPath, {job})) << "another training of the same job";
  EXPECT_EQ(testing::lineage_of_start(output(), Resume::kAuto).jobs.size(), 2U);
  save(testing::lineage_of_start(output(), Resume::kPath, at(10), {job}), {20});
  EXPECT_TRUE(begun(Resume::kPath, {job}));
  EXPECT_FALSE(begun(Resume::kNever, {job}));
}

// Its first byte cannot be read: EIO.
void put_on_bad_disk(const fs::path& file) {
  fs::remove(file);
  fs::create_symlink("/proc/self/mem", file);
}

TEST_F(RunsOfOneFolder, WhatADiskDoesNotGiveIsNoDamage) {
  save(fresh(), {20, 40});
  const auto storage_failed = [&] {
    return testing::message_of<core::MachineError>(26, [&] { resumed(); });
  };
  for (const char* const name : {"state.json", "MANIFEST.json"}) {
    fs::rename(at(40) / name, output() / "kept");
    put_on_bad_disk(at(40) / name);
    EXPECT_NE(storage_failed().find("start again"), std::string::npos) << storage_failed();
    fs::rename(output() / "kept", at(40) / name);
  }
  EXPECT_EQ(resumed(), 40);
  put_on_bad_disk(at(20) / "MANIFEST.json");  // who knows of which run it is
  EXPECT_NE(storage_failed().find("global_step20"), std::string::npos) << storage_failed();
  fs::rename(at(20), output() / ".bad-global_step20-0123abcd");
  EXPECT_EQ(resumed(), 40);
}

TEST_F(RunsOfOneFolder, WhatADiskDoesNotGiveEndsTheLoadOfAll) {
  save(fresh(), {20});
  EXPECT_NE(testing::message_of<core::MachineError>(
                26,
                [&] {
                  comm::run_ranks(2, [&](comm::Communicator& world) {
                    const auto found = find_checkpoint(output(), Resume::kAuto, "", world);
                    if (world.rank() == 0) {
                      for (const auto& entry : fs::directory_iterator(at(20))) {
                        if (entry.path().extension() == ".safetensors") {
                          put_on_bad_disk(entry.path());
                        }
                      }
                    }
                    world.barrier().finish();
                    testing::OwnedState part = testing::empty_part_of_state(world.rank(), 2);
                    load_checkpoint(*found, testing::state_files(), part.slices, world);
                  });
                })
                .find("start again"),
            std::string::npos);
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
