// Folders that appear whole, and what dead processes leave.
#include "prepare/draft_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "core/check.h"
#include "prepare/content_note.h"

namespace fm::prepare {
namespace {

namespace fs = std::filesystem;

class DraftFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("draft_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      out.push_back(entry.path().filename().string());
    }
    return out;
  }
  static void make_old(const fs::path& path) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
  }

  fs::path folder_;
};

TEST_F(DraftFolderTest, APublishedFolderHasWhatWasWrittenAndNoLock) {
  {
    DraftFolder draft(folder_, "a");
    std::ofstream(draft.path() / "ids") << "123";
    draft.publish(folder_ / "whole", "ids");
  }
  EXPECT_EQ(names(), std::vector<std::string>{"whole"});
  EXPECT_TRUE(fs::exists(folder_ / "whole" / "ids"));
  EXPECT_FALSE(fs::exists(folder_ / "whole" / "LOCK"));
}

TEST_F(DraftFolderTest, WhatIsNotPublishedGoes) {
  {
    const DraftFolder draft(folder_, "a");
    std::ofstream(draft.path() / "ids") << "123";
  }
  EXPECT_TRUE(names().empty());
}

TEST_F(DraftFolderTest, TheFolderOfAFasterProcessStays) {
  DraftFolder mine(folder_, "a");
  fs::create_directories(folder_ / "whole");
  std::ofstream(folder_ / "whole" / "sign") << "theirs";
  mine.publish(folder_ / "whole", "sign");
  EXPECT_TRUE(fs::exists(folder_ / "whole" / "sign"));
}

TEST_F(DraftFolderTest, AFolderThatCannotGetItsNameIsAnErrorOfStorage) {
  DraftFolder draft(folder_, "a");
  fs::create_directories(folder_ / "whole" / "something else");
  try {
    draft.publish(folder_ / "whole", "sign");
    FAIL() << "published";
  } catch (const core::MachineError& error) {
    EXPECT_EQ(error.code(), core::ExitCode::kStorageFailed);
  }
}

// A child makes a draft and dies; the parent holds another of the same name.
TEST_F(DraftFolderTest, ASweepTakesDraftsOfTheDeadAndLeavesThoseOfTheLiving) {
  const DraftFolder living(folder_, "a");
  const pid_t child = ::fork();
  if (child == 0) {
    const DraftFolder draft(folder_, "a");
    ::_exit(0);  // as a kill: no destructor runs
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_EQ(names().size(), 2U);
  sweep_drafts(folder_, "");
  EXPECT_EQ(names(), std::vector<std::string>{living.path().filename().string()});
}

TEST_F(DraftFolderTest, WithoutALockOnlyOldOnesAreSwept) {
  fs::create_directories(folder_ / ".tmp-a-00000001");
  fs::create_directories(folder_ / ".tmp-a-00000002");
  std::ofstream(folder_ / ".tmp-content-00000003") << "half a note";
  fs::create_directories(folder_ / ".tmp-other-name");
  fs::create_directories(folder_ / "a-00000001");
  for (const char* old :
       {".tmp-a-00000001", ".tmp-content-00000003", ".tmp-other-name", "a-00000001"}) {
    make_old(folder_ / old);
  }
  sweep_drafts(folder_, "");
  std::vector<std::string> left = names();
  std::sort(left.begin(), left.end());
  EXPECT_EQ(left, (std::vector<std::string>{".tmp-a-00000002", ".tmp-other-name", "a-00000001"}));
}

TEST_F(DraftFolderTest, ASweepOfOneNameLeavesTheOthers) {
  for (const char* name : {".tmp-mine-00000001", ".tmp-theirs-00000001"}) {
    fs::create_directories(folder_ / name);
    make_old(folder_ / name);
  }
  sweep_drafts(folder_, "mine");
  EXPECT_EQ(names(), std::vector<std::string>{".tmp-theirs-00000001"});
}

class ContentNote : public DraftFolderTest {
 protected:
  void SetUp() override {
    DraftFolderTest::SetUp();
    fs::create_directories(folder_);
    path_ = (folder_ / "a.jsonl").string();
  }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  // When the inode was changed last: nobody can set it.
  std::int64_t changed_ns() const {
    struct stat state {};
    EXPECT_EQ(::stat(path_.c_str(), &state), 0);
    return std::int64_t{state.st_ctim.tv_sec} * 1'000'000'000 + state.st_ctim.tv_nsec;
  }
  std::optional<fs::path> note() const {
    if (!fs::exists(folder_ / "cache")) return std::nullopt;
    for (const auto& entry : fs::directory_iterator(folder_ / "cache")) return entry.path();
    return std::nullopt;
  }

  // So many seconds after the file was changed last.
  std::string content(int later = 10) const {
    return content_of(path_, folder_ / "cache", changed_ns() / 1'000'000'000 + later);
  }

  std::string path_;
};

TEST_F(ContentNote, AFileThatWasJustWrittenIsNotNoted) {
  write("ab\n");
  content(0);
  EXPECT_FALSE(note().has_value());
}

// What the note says counts while the file is as it was: another text in it comes back.
TEST_F(ContentNote, ANoteStandsForTheFileUntilThatChanges) {
  write("ab\n");
  const std::string first = content();
  ASSERT_TRUE(note().has_value());
  std::string text = (std::stringstream() << std::ifstream(*note()).rdbuf()).str();
  ASSERT_TRUE(text.ends_with(first + "\n")) << text;
  text.replace(text.size() - 17, 16, "0123456789abcdef");
  std::ofstream(*note()) << text;
  EXPECT_EQ(content(), "0123456789abcdef");
  const fs::file_time_type written = fs::last_write_time(path_);
  const std::int64_t noted = changed_ns();
  write("ac\n");
  do {  // the same size, inode and time of writing, until the file system's clock has moved
    fs::last_write_time(path_, written);
  } while (changed_ns() == noted);
  EXPECT_NE(content(), first);
  EXPECT_NE(content(), "0123456789abcdef");
}

TEST_F(ContentNote, ADamagedNoteIsNotBelieved) {
  write("ab\n");
  const std::string first = content();
  const auto size = fs::file_size(*note());
  for (const std::size_t kept : {std::size_t{0}, std::size_t{9}, size - 1}) {
    fs::resize_file(*note(), kept);
    EXPECT_EQ(content(), first);
  }
}

}  // namespace
}  // namespace fm::prepare
