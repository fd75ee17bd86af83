// Event files, byte by byte and record by record.
#include "observe/monitor/tensorboard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/crc32c.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::monitor {
namespace {

using testing::file_content;
using testing::ScratchFolder;

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

std::string hex(const std::string& bytes) {
  std::string out;
  for (const char byte : bytes) {
    for (const int digit : {(byte >> 4) & 15, byte & 15}) out += "0123456789abcdef"[digit];
  }
  return out;
}

// Written by tensorboard's own EventFileWriter at wall time 1.
TEST(TensorBoardRecords, AreThoseOfTensorBoardsOwnWriter) {
  EXPECT_EQ(hex(version_record(1.0)),
            "1800000000000000a37f4b22"
            "09000000000000f03f1a0d627261696e2e4576656e743a3286bf577a");
  EXPECT_EQ(hex(scalar_record(1.0, {"loss", 2.5, 5})),
            "1a00000000000000129bd82d"
            "09000000000000f03f10052a0d0a0b0a046c6f737315000020401f0ddde3");
}

// wall_time 1 | step 300 = AC 02 | field 7, 2 bytes: field 1 = 1.
TEST(TensorBoardRecords, AStartHasItsStepAndAStatus) {
  const std::string data = start_record(1.0, 300).substr(12);
  EXPECT_EQ(hex(data.substr(0, data.size() - 4)), "09000000000000f03f10ac023a020801");
}

// tensorflow/core/lib/hash/crc32c.h: rotated right by 15 bits, plus a constant.
TEST(TensorBoardRecords, ChecksumsAreMasked) {
  const std::string bytes = version_record(1.0);
  const std::uint32_t crc = core::crc32c(bytes.substr(12, 24));
  const std::uint32_t masked = ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
  std::uint32_t found = 0;
  std::memcpy(&found, bytes.data() + 36, 4);
  EXPECT_EQ(found, masked);
}

TEST(TensorBoardRecords, TheLongestStepHasTenBytes) {
  const std::string data = start_record(1.0, -1).substr(12);
  EXPECT_EQ(hex(data.substr(9, 11)), "10ffffffffffffffffff01");
}

TEST(TensorBoardFile, BeginsWithVersionAndStartAndGrowsAtEveryWrite) {
  const ScratchFolder scratch;
  const std::filesystem::path folder = scratch.path() / "runs" / "job";
  const auto monitor = tensorboard_in(folder);
  EXPECT_TRUE(files_in(scratch.path()).empty()) << "nothing was written yet";
  EXPECT_EQ(monitor->write(std::vector<Event>{{"a", 1.0, 64}, {"b", std::nan(""), 64}}), "");
  const std::vector<std::filesystem::path> files = files_in(folder);
  ASSERT_EQ(files.size(), 1U);
  const std::string name = files[0].filename().string();
  EXPECT_TRUE(name.starts_with("events.out.tfevents.")) << name;
  EXPECT_TRUE(name.ends_with(".0")) << name;
  const std::size_t head = version_record(1.0).size() + start_record(1.0, 64).size();
  const std::size_t one = scalar_record(1.0, {"a", 1.0, 64}).size();
  EXPECT_EQ(file_content(files[0]).size(), head + 2 * one);
  EXPECT_EQ(hex(file_content(files[0]).substr(40 + 12 + 9, 6)), "10403a020801") << "START at 64";
  EXPECT_EQ(monitor->write(std::vector<Event>{{"a", 2.0, 128}}), "");
  EXPECT_EQ(file_content(files[0]).size(), head + 3 * one + 1) << "128 takes two bytes";
}

TEST(TensorBoardFile, ASecondStartHasAFileOfItsOwn) {
  const ScratchFolder scratch;
  EXPECT_EQ(tensorboard_in(scratch.path())->write(std::vector<Event>{{"a", 1.0, 1}}), "");
  EXPECT_EQ(tensorboard_in(scratch.path())->write(std::vector<Event>{{"a", 1.0, 1}}), "");
  EXPECT_EQ(files_in(scratch.path()).size(), 2U);
}

}  // namespace
}  // namespace fm::monitor
