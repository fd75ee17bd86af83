#include "checkpoint/save_checkpoint.h"

#include <gtest/gtest.h>

#include "checkpoint/find_checkpoint.h"
#include "checkpoint/load_checkpoint.h"
#include "checkpoint/manifest.h"
#include "comm/meet/world.h"
#include "core/crc32c.h"
#include "core/fault.h"
#include "tests/checkpoint/checkpoint_cases.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::checkpoint {
namespace {

using testing::listing;
using testing::load_state;
using testing::save_state;

class SaveCheckpoint : public ::testing::Test {
 protected:
  ~SaveCheckpoint() override { core::arm_faults(""); }
  const std::filesystem::path& output() const { return folder_.path(); }

  testing::ScratchFolder folder_;
};

TEST_F(SaveCheckpoint, AnySlicingReadsWhatAnyOtherWrote) {
  std::int64_t step = 0;
  for (const int writers : {1, 3, 5}) {
    ASSERT_TRUE(save_state(output(), ++step, writers).durable);
    for (const int readers : {1, 2, 4}) EXPECT_EQ(load_state(output(), readers), step);
  }
}

TEST_F(SaveCheckpoint, LeavesExactlyTheFilesOfTheLayout) {
  const SaveResult result = save_state(output(), 5, 2);
  EXPECT_TRUE(result.durable);
  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(listing(output()), "global_step5 latest");
  EXPECT_EQ(listing(output() / "global_step5"),
            "MANIFEST.json moments.safetensors state.json weights.safetensors");
  EXPECT_EQ(testing::file_content(output() / "latest"), "global_step5");
  EXPECT_EQ(testing::file_content(output() / "global_step5" / "state.json"), "{\"step\": 5}\n");
  const auto size = [&](const char* name) {
    return static_cast<std::int64_t>(std::filesystem::file_size(output() / "global_step5" / name));
  };
  EXPECT_EQ(result.bytes.count(), size("weights.safetensors") + size("moments.safetensors"));
}

TEST_F(SaveCheckpoint, ManifestSaysTheCrcOfEveryByte) {
  save_state(output(), 5, 3);
  const std::filesystem::path folder = output() / "global_step5";
  const Manifest manifest = open_manifest(folder);
  EXPECT_EQ(manifest.tag, "global_step5");
  EXPECT_EQ(manifest.step, 5);
  ASSERT_EQ(manifest.files.size(), 2U);
  std::int64_t covered = 0;
  for (const ManifestRange& range : manifest.ranges) {
    const ManifestFile& file = manifest.files[static_cast<std::size_t>(range.file)];
    const std::string bytes = testing::file_content(folder / file.file);
    const std::string part =
        bytes.substr(static_cast<std::size_t>(range.offset), static_cast<std::size_t>(range.bytes));
    EXPECT_EQ(core::crc32c_plain(std::as_bytes(std::span(part))), range.crc);
    covered += range.bytes;
  }
  EXPECT_EQ(covered, 2 * (15 + 7) * 4);
  EXPECT_EQ(coverage_problem(manifest), "");
}

// A slice of 40 MB is three ranges of at most 16 MiB, each with a CRC of its own.
TEST_F(SaveCheckpoint, LargeSlicesAreCutIntoRanges) {
  constexpr std::int64_t kCount = 10'000'000;
  const std::vector<FileSpec> files = {{.file = "w.safetensors", .tensors = {{"w", {kCount}}}}};
  std::vector<float> written(kCount);
  for (std::size_t i = 0; i < written.size(); ++i) written[i] = static_cast<float>(i);
  const auto slice = [&](std::int64_t first, std::span<float> floats) {
    return FileSlice{
        "w.safetensors",
        core::slice_in_memory("w", {kCount}, core::Elements(first), floats.data(),
                              core::Elements(static_cast<std::int64_t>(floats.size())))};
  };
  comm::run_ranks(1, [&](comm::Communicator& world) {
    const SaveRequest request = {.output_dir = output(),
                                 .step = 1,
                                 .files = files,
                                 .mine = {slice(0, written)},
                                 .state_json = "{}"};
    ASSERT_TRUE(save_checkpoint(request, world).durable);
  });
  const Manifest manifest = open_manifest(output() / "global_step1");
  ASSERT_EQ(manifest.ranges.size(), 3U);
  EXPECT_EQ(manifest.ranges[2].bytes, 4 * kCount - 2 * (std::int64_t{16} << 20));
  std::vector<float> read(kCount);
  comm::run_ranks(2, [&](comm::Communicator& world) {
    const auto found = find_checkpoint(output(), Resume::kMust, "", world);
    const auto half = static_cast<std::size_t>(kCount / 2);
    const std::int64_t first = world.rank() * (kCount / 2);
    const auto mine = std::span(read).subspan(static_cast<std::size_t>(first), half);
    load_checkpoint(*found, files, {slice(first, mine)}, world);
  });
  EXPECT_EQ(read, written);
}

TEST_F(SaveCheckpoint, TheSameStepIsReplaced) {
  save_state(output(), 5, 2);
  std::ofstream(output() / "global_step5" / "extra") << "from the first save";
  save_state(output(), 5, 3);
  EXPECT_EQ(listing(output()), "global_step5 latest");
  EXPECT_EQ(listing(output() / "global_step5"),
            "MANIFEST.json moments.safetensors state.json weights.safetensors");
  EXPECT_EQ(load_state(output(), 2), 5);
}

TEST_F(SaveCheckpoint, AFolderThatIsNotOursIsPutAsideNotDeleted) {
  std::filesystem::create_directory(output() / "global_step5");
  std::ofstream(output() / "global_step5" / "layer_00-model_states.pt") << "DeepSpeed's";
  EXPECT_TRUE(save_state(output(), 5, 2).durable);
  EXPECT_EQ(listing(output()).find(".bad-global_step5-"), 0U);
  EXPECT_EQ(load_state(output(), 1), 5);
}

TEST_F(SaveCheckpoint, KeepLastCountsOnlyCompleteOnesAndKeepsTheCurrent) {
  for (const std::int64_t step : {10, 20, 30}) save_state(output(), step, 2);
  std::filesystem::create_directory(output() / "global_step25");  // incomplete: not counted
  std::filesystem::remove(output() / "global_step20" / "MANIFEST.json");
  save_state(output(), 40, 2, 2);
  EXPECT_EQ(listing(output()), "global_step20 global_step25 global_step30 global_step40 latest");
  save_state(output(), 15, 2, 1);  // after going back: the newest and the one just written
  EXPECT_EQ(listing(output()), "global_step15 global_step20 global_step25 global_step40 latest");
}

TEST_F(SaveCheckpoint, PruningNeverFollowsLinks) {
  const testing::ScratchFolder elsewhere;
  save_state(elsewhere.path(), 1, 1);
  std::filesystem::create_directory_symlink(elsewhere.path() / "global_step1",
                                            output() / "global_step1");
  save_state(output(), 2, 1, 1);
  save_state(output(), 3, 1, 1);
  EXPECT_EQ(listing(output()), "global_step1 global_step3 latest");
  EXPECT_EQ(load_state(elsewhere.path(), 1), 1);
}

TEST_F(SaveCheckpoint, AFullOrBrokenDiskOnOneRankSkipsTheSaveEverywhere) {
  save_state(output(), 1, 3);
  for (const std::string step : {"S0", "S1", "S2", "S3", "S4", "S5", "S6", "S7"}) {
    for (const char* action : {"enospc", "eio"}) {
      core::arm_faults("step=2,point=ckpt." + step + ",action=" + action);
      const SaveResult result = save_state(output(), 2, 3);
      EXPECT_FALSE(result.durable) << step;
      const char* cause = action == std::string("eio") ? "Input/output error" : "No space left";
      EXPECT_NE(result.problem.find(cause), std::string::npos) << result.problem;
      EXPECT_NE(result.problem.find("rank 0: "), std::string::npos) << result.problem;
      EXPECT_EQ(listing(output()), "global_step1 latest") << step;
    }
  }
  core::arm_faults("rank=2,step=2,point=ckpt.S3,action=enospc");
  const SaveResult result = save_state(output(), 2, 3);
  EXPECT_FALSE(result.durable);
  EXPECT_NE(result.problem.find("rank 2: "), std::string::npos) << result.problem;
  EXPECT_EQ(load_state(output(), 2), 1);
  core::arm_faults("");
  EXPECT_TRUE(save_state(output(), 2, 3).durable);
  EXPECT_EQ(load_state(output(), 2), 2);
}

TEST_F(SaveCheckpoint, WhatFailsAfterPublishingDoesNotUndoTheSave) {
  for (const char* step : {"S8", "S9", "S10"}) {
    core::arm_faults(std::string("point=ckpt.") + step + ",action=enospc");
    EXPECT_TRUE(save_state(output(), 3, 2).durable);
    EXPECT_EQ(load_state(output(), 1), 3);
  }
}

// tmpfs of this size is not always allowed in a test; a checkpoint larger than any disk is.
TEST_F(SaveCheckpoint, ACheckpointLargerThanTheDiskIsSkippedBeforeAnythingIsWritten) {
  comm::run_ranks(2, [&](comm::Communicator& world) {
    const std::vector<FileSpec> huge = {
        {.file = "huge.safetensors", .tensors = {{"x", {std::int64_t{1} << 50}}}}};
    const SaveResult result = save_checkpoint(
        {.output_dir = output(), .step = 1, .files = huge, .mine = {}, .state_json = "{}"}, world);
    EXPECT_FALSE(result.durable);
    EXPECT_NE(result.problem.find("must have room"), std::string::npos) << result.problem;
  });
  EXPECT_EQ(listing(output()), "");
}

TEST_F(SaveCheckpoint, AnOutputDirThatCannotBeMadeIsOneMessage) {
  const std::string file = folder_.write("file", "");
  const SaveResult result = save_state(file + "/below", 1, 2);
  EXPECT_FALSE(result.durable);
  EXPECT_NE(result.problem.find("output_dir must be writable"), std::string::npos)
      << result.problem;
}

TEST_F(SaveCheckpoint, SlicesThatDoNotCoverEveryTensorAreADefect) {
  EXPECT_THROW(comm::run_ranks(2,
                               [&](comm::Communicator& world) {
                                 const auto part = testing::part_of_state(1, 0, 2);  // both write 0
                                 save_checkpoint({.output_dir = output(),
                                                  .step = 1,
                                                  .files = testing::state_files(),
                                                  .mine = part.slices,
                                                  .state_json = "{}"},
                                                 world);
                               }),
               core::BugError);
}

}  // namespace
}  // namespace fm::checkpoint
