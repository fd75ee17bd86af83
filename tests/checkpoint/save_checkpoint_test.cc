#include "checkpoint/save_checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "checkpoint/find_checkpoint.h"
#include "checkpoint/load_checkpoint.h"
#include "checkpoint/manifest.h"
#include "comm/agree.h"
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
using Where = SaveCourse::Where;

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

// The manifest without the time that the save took.
Manifest manifest_without_time(const std::filesystem::path& folder) {
  Manifest manifest = open_manifest(folder);
  manifest.save_ms = 0;
  return manifest;
}

TEST_F(SaveCheckpoint, AThreadWritesTheSameBytes) {
  const testing::ScratchFolder elsewhere;
  for (const int ranks : {1, 3}) {
    SCOPED_TRACE(ranks);
    ASSERT_TRUE(save_state(output(), ranks, ranks).durable);
    ASSERT_TRUE(save_state(elsewhere.path(), ranks, ranks, {.where = Where::kThread}).durable);
    const auto folder = [&](const std::filesystem::path& from) {
      return from / core::concat("global_step", ranks);
    };
    EXPECT_EQ(manifest_text(manifest_without_time(folder(elsewhere.path()))),
              manifest_text(manifest_without_time(folder(output()))));
    for (const char* file : {"moments.safetensors", "state.json", "weights.safetensors"}) {
      EXPECT_EQ(testing::file_content(folder(elsewhere.path()) / file),
                testing::file_content(folder(output()) / file))
          << file;
    }
  }
  EXPECT_EQ(listing(elsewhere.path()), listing(output()));
}

// The rank's thread does other things in between.
TEST_F(SaveCheckpoint, GoesOnWhenEveryRankIsReady) {
  comm::run_ranks(2, [&](comm::Communicator& world) {
    const auto part = testing::part_of_state(7, world.rank(), world.size());
    SaveCourse course({.output_dir = output(),
                       .step = 7,
                       .files = testing::state_files(),
                       .mine = part.slices,
                       .state_json = testing::state_text(7)},
                      world, Where::kThread);
    int steps = 0;
    int durable_at = 0;
    while (!course.over()) {
      while (std::ranges::min(comm::gather_numbers(world, course.ready() ? 1 : 0)) == 0) {
      }
      course.meet();
      ++steps;
      if (course.result().durable && durable_at == 0) durable_at = steps;
    }
    EXPECT_EQ(durable_at, 3) << "files, slices, publication";
    EXPECT_EQ(steps, 4);
  });
  EXPECT_EQ(load_state(output(), 2), 7);
}

// Rank 0 alone, in the course's thread.
TEST_F(SaveCheckpoint, WhatBelongsBesideIsOnTheDiskBeforeAnythingElse) {
  std::string seen;
  comm::run_ranks(2, [&](comm::Communicator& world) {
    const auto part = testing::part_of_state(7, world.rank(), world.size());
    const auto caller = std::this_thread::get_id();
    SaveCourse course({.output_dir = output(),
                       .step = 7,
                       .files = testing::state_files(),
                       .mine = part.slices,
                       .state_json = testing::state_text(7),
                       .beside = [&, caller, rank = world.rank()]() -> std::string {
                         const bool aside = std::this_thread::get_id() != caller;
                         seen += core::concat(rank, aside ? " aside" : " here", listing(output()));
                         return "a log may lose lines";
                       }},
                      world, Where::kThread);
    while (!course.over()) course.meet();
    EXPECT_TRUE(course.result().durable) << "it is only a warning";
  });
  EXPECT_EQ(seen, "0 aside");
}

TEST_F(SaveCheckpoint, WhatIsAbandonedLeavesThePreviousCheckpoint) {
  save_state(output(), 1, 2);
  comm::run_ranks(2, [&](comm::Communicator& world) {
    const auto part = testing::part_of_state(2, world.rank(), world.size());
    SaveCourse course({.output_dir = output(),
                       .step = 2,
                       .files = testing::state_files(),
                       .mine = part.slices,
                       .state_json = testing::state_text(2)},
                      world, Where::kThread);
    course.meet();  // the folder is there, and slices are on their way
  });
  EXPECT_EQ(listing(output()).find(".tmp-global_step2-"), 0U);
  EXPECT_EQ(load_state(output(), 2), 1);
}

// As large as a range and a half; the last rank has the number.
TEST_F(SaveCheckpoint, WhatIsNotFiniteIsNotPublishedWhereThatIsAsked) {
  constexpr std::int64_t kCount = 6'000'000;
  const std::vector<FileSpec> files = {{.file = "w.safetensors", .tensors = {{"w", {kCount}}}}};
  for (const bool asked : {true, false}) {
    for (const std::int64_t at : {std::int64_t{0}, std::int64_t{5'999'999}}) {
      std::vector<float> numbers(kCount, 1.0F);
      numbers[static_cast<std::size_t>(at)] = NAN;
      comm::run_ranks(2, [&](comm::Communicator& world) {
        std::vector<FileSlice> mine;
        if (world.rank() == 1) {
          mine.push_back(
              {"w.safetensors", core::slice_in_memory("w", {kCount}, core::Elements(0),
                                                      numbers.data(), core::Elements(kCount))});
        }
        SaveCourse course({.output_dir = output(),
                           .step = 3,
                           .files = files,
                           .mine = mine,
                           .state_json = "{}",
                           .finite_only = asked},
                          world, Where::kThread);
        while (!course.over()) course.meet();
        EXPECT_EQ(course.result().durable, !asked);
        EXPECT_EQ(
            course.result().broken,
            asked ? core::concat("rank 1: nan at element ", at, " of w for w.safetensors") : "");
      });
      EXPECT_EQ(listing(output()), asked ? "" : "global_step3 latest");
    }
  }
}

TEST_F(SaveCheckpoint, ADefectInAThreadIsThrownAtTheMeeting) {
  core::arm_faults("point=ckpt.S3,action=throw");
  EXPECT_THROW(save_state(output(), 1, 2, {.where = Where::kThread}), core::BugError);
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

class FailingSave : public SaveCheckpoint, public ::testing::WithParamInterface<Where> {
 protected:
  SaveResult save(std::int64_t step, int ranks) const {
    return save_state(output(), step, ranks, {.where = GetParam()});
  }
};

TEST_P(FailingSave, AFullOrBrokenDiskOnOneRankSkipsTheSaveEverywhere) {
  save(1, 3);
  for (const std::string step : {"S0", "S1", "S2", "S3", "S4", "S5", "S6", "S7"}) {
    for (const char* action : {"enospc", "eio"}) {
      core::arm_faults("step=2,point=ckpt." + step + ",action=" + action);
      const SaveResult result = save(2, 3);
      EXPECT_FALSE(result.durable) << step;
      const char* cause = action == std::string("eio") ? "Input/output error" : "No space left";
      EXPECT_NE(result.problem.find(cause), std::string::npos) << result.problem;
      EXPECT_NE(result.problem.find("rank 0: "), std::string::npos) << result.problem;
      EXPECT_EQ(listing(output()), "global_step1 latest") << step;
    }
  }
  core::arm_faults("rank=2,step=2,point=ckpt.S3,action=enospc");
  const SaveResult result = save(2, 3);
  EXPECT_FALSE(result.durable);
  EXPECT_NE(result.problem.find("rank 2: "), std::string::npos) << result.problem;
  EXPECT_EQ(load_state(output(), 2), 1);
  core::arm_faults("");
  EXPECT_TRUE(save(2, 3).durable);
  EXPECT_EQ(load_state(output(), 2), 2);
}

TEST_P(FailingSave, WhatFailsAfterPublishingDoesNotUndoTheSave) {
  for (const char* step : {"S8", "S9", "S10"}) {
    core::arm_faults(std::string("point=ckpt.") + step + ",action=enospc");
    EXPECT_TRUE(save(3, 2).durable);
    EXPECT_EQ(load_state(output(), 1), 3);
  }
}

INSTANTIATE_TEST_SUITE_P(All, FailingSave, ::testing::Values(Where::kHere, Where::kThread),
                         [](const auto& at) {
                           return at.param == Where::kThread ? "InAThread" : "Here";
                         });

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
