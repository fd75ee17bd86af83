#include "checkpoint/find_checkpoint.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>

#include "checkpoint/load_checkpoint.h"
#include "checkpoint/manifest.h"
#include "comm/meet/world.h"
#include "tests/checkpoint/checkpoint_cases.h"
#include "tests/checkpoint/damage.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::flip_byte;
using testing::listing;
using testing::load_state;
using testing::save_state;

std::string refused(const fs::path& output_dir, Resume resume, const fs::path& path = "") {
  return testing::message_of<core::MachineError>(12, [&] {
    comm::run_ranks(
        2, [&](comm::Communicator& world) { find_checkpoint(output_dir, resume, path, world); });
  });
}

std::string load_refused(const fs::path& output_dir, int ranks = 2) {
  return testing::message_of<core::MachineError>(12, [&] { load_state(output_dir, ranks); });
}

// The step that all ranks find, or -1.
std::int64_t found_step(const fs::path& output_dir, Resume resume, const fs::path& path = "") {
  std::int64_t step = -1;
  comm::run_ranks(2, [&](comm::Communicator& world) {
    const auto found = find_checkpoint(output_dir, resume, path, world);
    if (found && world.rank() == 1) step = found->step;
  });
  return step;
}

class FindCheckpoint : public ::testing::Test {
 protected:
  const fs::path& output() const { return folder_.path(); }
  testing::ScratchFolder folder_;
};

TEST_F(FindCheckpoint, NothingIsAFreshStartOrARefusalAsAsked) {
  EXPECT_EQ(found_step(output(), Resume::kAuto), -1);
  EXPECT_EQ(found_step(output() / "absent", Resume::kAuto), -1);
  EXPECT_NE(refused(output(), Resume::kMust).find("--resume"), std::string::npos);
  EXPECT_NE(refused(output() / "absent", Resume::kMust).find("absent"), std::string::npos);
}

TEST_F(FindCheckpoint, LeftoversAndForeignFoldersAreAFreshStart) {
  fs::create_directories(output() / ".tmp-global_step5-0123abcd");
  std::ofstream(output() / ".tmp-global_step5-0123abcd" / "weights.safetensors") << "half";
  fs::create_directories(output() / "global_step001");  // DeepSpeed's spelling
  std::ofstream(output() / "global_step001" / "layer_00-model_states.pt") << "x";
  fs::create_directories(output() / "global_step7");
  EXPECT_EQ(found_step(output(), Resume::kAuto), -1);
}

TEST_F(FindCheckpoint, NewestByNumberNotByNameOrLatest) {
  for (const std::int64_t step : {9, 10, 100}) save_state(output(), step, 1);
  std::ofstream(output() / "latest") << "global_step9";
  EXPECT_EQ(found_step(output(), Resume::kAuto), 100);
  EXPECT_EQ(found_step(output(), Resume::kMust), 100);
  EXPECT_EQ(found_step(output(), Resume::kNever), -1);
}

TEST_F(FindCheckpoint, APipeInPlaceOfAFileIsNotWaitedFor) {
  for (const std::int64_t step : {1, 2}) save_state(output(), step, 1);
  const auto replace_by_pipe = [](const fs::path& path) {
    fs::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  };
  replace_by_pipe(output() / "latest");
  EXPECT_EQ(found_step(output(), Resume::kAuto), 2);
  replace_by_pipe(output() / "global_step2" / "MANIFEST.json");
  EXPECT_EQ(found_step(output(), Resume::kAuto), 1);
}

// Sparse: it costs no disk.
TEST_F(FindCheckpoint, AManifestLargerThanAnyIsNotRead) {
  save_state(output(), 1, 1);
  const fs::path manifest = output() / "global_step1" / "MANIFEST.json";
  fs::resize_file(manifest, 3'000'000'000);
  EXPECT_NE(refused(output(), Resume::kPath, output() / "global_step1")
                .find("3.0 GB, 256.0 MB are the most"),
            std::string::npos);
}

TEST_F(FindCheckpoint, OtherSpellingsOfTheNameAreNotCheckpoints) {
  save_state(output(), 1, 1);
  for (const char* name : {"global_step007", "global_step9x", "global_step", "global_step-9",
                           "global_step+9", "xglobal_step9", "global_step99999999999999999999"}) {
    fs::rename(output() / "global_step1", output() / name);
    EXPECT_EQ(found_step(output(), Resume::kAuto), -1) << name;
    fs::rename(output() / name, output() / "global_step1");
  }
  EXPECT_EQ(found_step(output(), Resume::kAuto), 1);
}

TEST_F(FindCheckpoint, ACopyUnderAnotherStepIsPassedOver) {
  for (const std::int64_t step : {1, 2}) save_state(output(), step, 1);
  fs::copy(output() / "global_step1", output() / "global_step5");
  EXPECT_EQ(found_step(output(), Resume::kAuto), 2);
  EXPECT_EQ(found_step("elsewhere", Resume::kPath, output() / "global_step5"), 1);
}

TEST_F(FindCheckpoint, PathIsACheckpointOrAnOutputDirectory) {
  for (const std::int64_t step : {1, 2}) save_state(output(), step, 1);
  EXPECT_EQ(found_step("elsewhere", Resume::kPath, output() / "global_step1"), 1);
  EXPECT_EQ(found_step("elsewhere", Resume::kPath, output()), 2);
  EXPECT_NE(refused("elsewhere", Resume::kPath, output() / "absent").find("absent"),
            std::string::npos);
  fs::remove(output() / "global_step1" / "MANIFEST.json");
  EXPECT_NE(refused("elsewhere", Resume::kPath, output() / "global_step1").find("MANIFEST.json"),
            std::string::npos);
}

TEST_F(FindCheckpoint, DamageThatIsCheapToSeeFallsBackToTheOlder) {
  const auto newest = [&] { return output() / "global_step2"; };
  const std::function<void()> damages[] = {
      [&] { fs::remove(newest() / "MANIFEST.json"); },
      [&] { flip_byte(newest() / "MANIFEST.json", 40); },
      [&] { fs::resize_file(newest() / "MANIFEST.json", 0); },
      [&] {
        fs::resize_file(newest() / "MANIFEST.json", fs::file_size(newest() / "MANIFEST.json") - 5);
      },
      [&] { fs::remove(newest() / "moments.safetensors"); },
      [&] {
        fs::resize_file(newest() / "weights.safetensors",
                        fs::file_size(newest() / "weights.safetensors") - 1);
      },
      [&] { flip_byte(newest() / "weights.safetensors", 20); },  // in the header
      [&] { flip_byte(newest() / "state.json", 3); },
      [&] { fs::remove(newest() / "state.json"); },
  };
  for (const auto& damage : damages) {
    save_state(output(), 1, 2);
    save_state(output(), 2, 2);
    ASSERT_EQ(load_state(output(), 2), 2);
    damage();
    EXPECT_EQ(load_state(output(), 2), 1);
    fs::remove_all(output() / "global_step1");
    EXPECT_NE(load_refused(output()).find("a loadable checkpoint is required"), std::string::npos);
    fs::remove_all(output() / "global_step2");
  }
}

TEST_F(FindCheckpoint, EveryFlippedDataByteIsFoundByAnyNumberOfRanks) {
  save_state(output(), 3, 3);
  const fs::path file = output() / "global_step3" / "weights.safetensors";
  const auto size = static_cast<std::int64_t>(fs::file_size(file));
  for (std::int64_t at = size - (15 + 7) * 4; at < size; at += 5) {
    flip_byte(file, at);
    for (const int ranks : {1, 2, 4}) {
      const std::string message = load_refused(output(), ranks);
      EXPECT_NE(message.find("weights.safetensors"), std::string::npos) << message;
      EXPECT_NE(message.find("CRC-32C expected "), std::string::npos) << message;
    }
    flip_byte(file, at);
  }
  EXPECT_EQ(load_state(output(), 2), 3);
}

TEST_F(FindCheckpoint, CrcMessageNamesTheRangeThatHoldsTheByte) {
  save_state(output(), 3, 1);
  const fs::path file = output() / "global_step3" / "weights.safetensors";
  const auto size = static_cast<std::int64_t>(fs::file_size(file));
  flip_byte(file, size - 1);  // last byte of b: 7 floats
  const std::string range = core::concat("bytes [", size - 28, ", ", size, ")");
  EXPECT_NE(load_refused(output()).find(range), std::string::npos) << load_refused(output());
}

TEST_F(FindCheckpoint, QuarantinedOnesGiveWayToOlderOnesButNeverToAFreshStart) {
  save_state(output(), 1, 1);
  save_state(output(), 2, 1);
  const auto quarantine = [&] {
    comm::run_ranks(2, [&](comm::Communicator& world) {
      quarantine_checkpoint(*find_checkpoint(output(), Resume::kAuto, "", world), world);
    });
  };
  quarantine();
  EXPECT_EQ(listing(output()).find(".bad-global_step2-"), 0U);
  EXPECT_EQ(load_state(output(), 2), 1);
  quarantine();
  EXPECT_NE(load_refused(output()).find(".bad-global_step*"), std::string::npos);
}

// What cannot be looked at is not the same as nothing.
TEST_F(FindCheckpoint, AFolderThatCannotBeReadIsDamagedNotAFreshStart) {
  save_state(output(), 1, 1);
  save_state(output(), 2, 1);
  fs::permissions(output(), fs::perms::all);
  fs::permissions(output() / "global_step1", fs::perms::all);
  fs::permissions(output() / "global_step2", fs::perms::none);
  {
    const testing::AsAStranger stranger;
    EXPECT_EQ(found_step(output(), Resume::kAuto), 1);
    fs::remove_all(output() / "global_step1");
    EXPECT_NE(refused(output(), Resume::kAuto).find("global_step2"), std::string::npos)
        << refused(output(), Resume::kAuto);
  }
  fs::permissions(output() / "global_step2", fs::perms::owner_all);
  EXPECT_EQ(found_step(output(), Resume::kAuto), 2);
}

TEST_F(FindCheckpoint, AnOutputDirThatCannotBeReadIsARefusal) {
  fs::permissions(output(), fs::perms::all);
  fs::create_directory(output() / "closed");
  fs::permissions(output() / "closed", fs::perms::none);
  const testing::AsAStranger stranger;
  EXPECT_NE(refused(output() / "closed", Resume::kAuto).find("folder must be readable"),
            std::string::npos);
}

TEST_F(FindCheckpoint, AFileInPlaceOfACheckpointIsDamage) {
  folder_.write("global_step5", "");
  EXPECT_NE(refused(output(), Resume::kAuto).find("global_step5"), std::string::npos);
  EXPECT_NE(refused(output() / "global_step5", Resume::kAuto).find("Not a directory"),
            std::string::npos);
}

TEST_F(FindCheckpoint, RanksThatSeeDifferentCheckpointsRefuse) {
  const testing::ScratchFolder other;
  save_state(output(), 1, 2);
  save_state(other.path(), 2, 2);
  const std::string message = testing::message_of<core::MachineError>(12, [&] {
    comm::run_ranks(2, [&](comm::Communicator& world) {
      const fs::path& mine = world.rank() == 0 ? output() : other.path();
      const FoundCheckpoint found = {
          .folder = mine / (world.rank() == 0 ? "global_step1" : "global_step2"), .state_json = {}};
      testing::OwnedState part = testing::empty_part_of_state(world.rank(), 2);
      load_checkpoint(found, testing::state_files(), part.slices, world);
    });
  });
  EXPECT_NE(message.find("all ranks must see the same checkpoint"), std::string::npos) << message;
}

// A file that no rank wants is part of the checkpoint too.
TEST_F(FindCheckpoint, WhatNobodyWantsIsCheckedAsWell) {
  save_state(output(), 3, 2);
  const fs::path file = output() / "global_step3" / "moments.safetensors";
  flip_byte(file, static_cast<std::int64_t>(fs::file_size(file)) - 1);
  const auto load_weights = [&](comm::Communicator& world) {
    load_checkpoint(*find_checkpoint(output(), Resume::kAuto, "", world),
                    {testing::state_files().front()}, {}, world);
  };
  EXPECT_THROW(comm::run_ranks(3, load_weights), DamagedCheckpoint);
}

TEST_F(FindCheckpoint, AnotherModelIsRefusedWithTheTensor) {
  save_state(output(), 1, 1);
  const auto load_as = [&](const TensorSpec& tensor) {
    return testing::message_of<core::MachineError>(12, [&] {
      comm::run_ranks(2, [&](comm::Communicator& world) {
        const auto found = find_checkpoint(output(), Resume::kAuto, "", world);
        load_checkpoint(*found, {{.file = "weights.safetensors", .tensors = {tensor}}}, {}, world);
      });
    });
  };
  EXPECT_NE(load_as({"a", {3, 5}}).find("tensor a is [5, 3], wanted [3, 5]"), std::string::npos);
  EXPECT_NE(load_as({"c", {1}}).find("tensor c is absent, wanted [1]"), std::string::npos);
  EXPECT_NE(load_as({"b", {7}}).find("tensors that this model does not have"), std::string::npos);
}

// Whatever happens to the text, an accepted manifest covers its files and says what it said.
TEST(Manifest, DamagedTextIsNeverAccepted) {
  const Manifest manifest = {.tag = "global_step5",
                             .step = 5,
                             .lineage = {"00ff", 2, "00aa", "global_step3"},
                             .files = {{"a.safetensors", core::Bytes(100), core::Bytes(20), 7}},
                             .ranges = {{0, 20, 50, 1, 0}, {0, 70, 30, 0xFFFFFFFF, 0}},
                             .state_bytes = core::Bytes(3),
                             .state_crc = 9};
  const std::string good = manifest_text(manifest);
  EXPECT_EQ(manifest_text(parse_manifest(good, "M")), good);
  std::mt19937 random(7);
  for (int round = 0; round < 5000; ++round) {
    std::string bad = good;
    const std::size_t at = random() % (bad.size() - 1);  // all but the last newline
    if (round % 3 == 0) bad.resize(at);
    if (round % 3 == 1) bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
    if (round % 3 == 2) bad.insert(at, 1, static_cast<char>(random() % 256));
    EXPECT_THROW(parse_manifest(bad, "M"), core::MachineError) << bad;
  }
}

TEST(Manifest, RangesMustCoverFilesExactlyOnce) {
  Manifest manifest = {.tag = "t",
                       .step = 1,
                       .lineage = {},
                       .files = {{"a", core::Bytes(100), core::Bytes(20), 0},
                                 {"b", core::Bytes(30), core::Bytes(30), 0}},
                       .ranges = {},
                       .state_bytes = {},
                       .state_crc = 0};
  const auto problem = [&](std::vector<ManifestRange> ranges) {
    manifest.ranges = std::move(ranges);
    return coverage_problem(manifest);
  };
  EXPECT_EQ(problem({{0, 60, 40, 0, 0}, {0, 20, 40, 0, 0}}), "");
  EXPECT_NE(problem({{0, 20, 40, 0, 0}}), "");
  EXPECT_NE(problem({{0, 20, 40, 0, 0}, {0, 61, 39, 0, 0}}), "");
  EXPECT_NE(problem({{0, 20, 80, 0, 0}, {0, 20, 80, 0, 0}}), "");
  EXPECT_NE(problem({{0, 20, 80, 0, 0}, {0, 100, 1, 0, 0}}), "");
  EXPECT_NE(problem({{0, 20, 80, 0, 0}, {1, 30, 1, 0, 0}}), "");
  EXPECT_NE(problem({{0, 20, 80, 0, 0}, {2, 0, 1, 0, 0}}), "");
  EXPECT_NE(problem({{-1, 0, 1, 0, 0}, {0, 20, 80, 0, 0}}), "");
}

}  // namespace
}  // namespace fm::checkpoint
