// Rings are read as they lie there; what is damaged is named, and the rest is shown.
#include "observe/blackbox/ring_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <fstream>

#include "core/check.h"
#include "tests/observe/blackbox/written_rings.h"

namespace fm::blackbox {
namespace {

namespace fs = std::filesystem;
using core::BoxVerb;

class Rings : public ::testing::Test {
 protected:
  fs::path ring(int rank) const {
    return folder_.path() / "blackbox" / ("rank0000" + std::to_string(rank) + ".ring");
  }
  void overwrite(const fs::path& path, std::size_t at, const std::string& bytes) const {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at));
    file << bytes;
  }
  std::string refusal(const fs::path& path) const {
    try {
      read_ring(path);
    } catch (const core::UserError& error) {
      EXPECT_EQ(error.code(), core::ExitCode::kDataError);
      return error.what();
    }
    return "";
  }
  testing::ScratchFolder folder_;
};

TEST_F(Rings, TellWhoWroteThemAndWhereItIs) {
  WrittenRank rank(2);
  ASSERT_EQ(rank.keep(folder_, 2), "");
  rank.box.begin_instruction(2, 1, 2);
  rank.enter(BoxVerb::kReduceScatter, 64);
  const RingFile read = read_ring(ring(2));
  EXPECT_EQ(read.run, "7f3a");
  EXPECT_EQ(read.world_rank, 2);
  EXPECT_EQ(read.world_size, 4);
  EXPECT_EQ(read.pid, ::getpid());
  EXPECT_FALSE(read.exit_code);
  ASSERT_TRUE(read.waiting);
  EXPECT_EQ(text_of(*read.waiting, read.view.names),
            "step 57, reduce R1.2 (layers.1), reduce_scatter #1 of group dp[0-3], 64 x fp32");
  EXPECT_EQ(read.torn, 0U);
  EXPECT_EQ(life_of(read), ProcessLife::kLives);
  rank.box.end(21);
  EXPECT_EQ(read_ring(ring(2)).exit_code, 21);
}

TEST_F(Rings, AreInTheOrderOfTheirRecordsAfterTheyWrapAround) {
  WrittenRank rank(0);
  ASSERT_EQ(rank.keep(folder_, 0), "");
  for (std::size_t at = 0; at < core::kBoxRecords + 10; ++at) rank.finish(BoxVerb::kAllReduce, 1);
  const RingFile read = read_ring(ring(0));
  ASSERT_EQ(read.view.records.size(), core::kBoxRecords);
  EXPECT_EQ(read.view.records.back().sequence, core::kBoxRecords + 10);
  EXPECT_EQ(read.view.records.front().sequence, 11U);
}

// A kill between two stores leaves 0 in the first word of a record.
TEST_F(Rings, LeaveOutATornRecord) {
  WrittenRank rank(0);
  ASSERT_EQ(rank.keep(folder_, 0), "");
  rank.finish(BoxVerb::kAllReduce, 1);
  const std::uint64_t torn = rank.enter(BoxVerb::kAllReduce, 2);
  overwrite(ring(0), core::kBoxRecordsAt + (torn - 1) * sizeof(core::BoxWords),
            std::string(8, '\0'));
  const RingFile read = read_ring(ring(0));
  EXPECT_EQ(read.torn, 1U);
  EXPECT_FALSE(read.waiting);
  EXPECT_EQ(read.view.records.back().elements, 1);
}

TEST_F(Rings, AreRefusedWithTheFilesNameWhereTheyAreDamaged) {
  WrittenRank rank(0);
  ASSERT_EQ(rank.keep(folder_, 0), "");
  EXPECT_EQ(refusal(ring(0)), "");
  overwrite(ring(0), core::kBoxNamesAt, "gruop\t");
  EXPECT_NE(refusal(ring(0)).find("gruop"), std::string::npos);
  EXPECT_NE(refusal(ring(0)).find("rank00000.ring"), std::string::npos);
  const std::uint32_t version = 2;
  overwrite(ring(0), offsetof(core::BoxHeader, version),
            std::string(reinterpret_cast<const char*>(&version), sizeof(version)));
  EXPECT_NE(refusal(ring(0)).find("version 2"), std::string::npos);
  fs::resize_file(ring(0), core::kBoxRecordsAt + 100);
  overwrite(ring(0), offsetof(core::BoxHeader, version), "\1");
  EXPECT_NE(refusal(ring(0)).find("cut short"), std::string::npos);
  overwrite(ring(0), 0, "X");
  EXPECT_NE(refusal(ring(0)).find("another file"), std::string::npos);
  fs::remove(ring(0));
  EXPECT_NE(refusal(ring(0)).find("No such file"), std::string::npos);
}

TEST_F(Rings, OfOneStartAreReadTogetherAndTheOthersNamed) {
  WrittenRank old(3);
  ASSERT_EQ(old.keep(folder_, 3, 4, "older"), "");
  WrittenRank zero(0);
  WrittenRank one(1);
  ASSERT_EQ(zero.keep(folder_, 0), "");
  ASSERT_EQ(one.keep(folder_, 1), "");
  folder_.write("blackbox/rank00002.ring", "no black box");
  const RingFolder read = read_rings(folder_.path(), false);
  ASSERT_EQ(read.rings.size(), 2U);
  EXPECT_EQ(read.rings[0].world_rank, 0);
  EXPECT_EQ(read.rings[1].world_rank, 1);
  ASSERT_EQ(read.problems.size(), 2U);
  EXPECT_NE(read.problems[0].find("rank00002.ring"), std::string::npos);
  EXPECT_NE(read.problems[1].find("another start (older)"), std::string::npos);
  EXPECT_EQ(read_rings(folder_.path() / "blackbox", false).rings.size(), 2U);
  EXPECT_THROW(read_rings(folder_.path(), true), core::UserError);
  WrittenRank again(0);
  ASSERT_EQ(again.keep(folder_, 0), "");
  EXPECT_EQ(read_rings(folder_.path(), true).rings.size(), 1U);
}

}  // namespace
}  // namespace fm::blackbox
