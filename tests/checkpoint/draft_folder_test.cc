// Folders that appear whole, and what dead processes leave.
#include "core/files/draft_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "core/check.h"
#include "core/files/output_file.h"

namespace fm::checkpoint {
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
    core::DraftFolder draft(folder_, "a");
    std::ofstream(draft.path() / "ids") << "123";
    draft.publish(folder_ / "whole", "ids");
  }
  EXPECT_EQ(names(), std::vector<std::string>{"whole"});
  EXPECT_TRUE(fs::exists(folder_ / "whole" / "ids"));
  EXPECT_FALSE(fs::exists(folder_ / "whole" / "LOCK"));
}

TEST_F(DraftFolderTest, WhatIsNotPublishedGoes) {
  {
    const core::DraftFolder draft(folder_, "a");
    std::ofstream(draft.path() / "ids") << "123";
  }
  EXPECT_TRUE(names().empty());
}

TEST_F(DraftFolderTest, TheFolderOfAFasterProcessStays) {
  core::DraftFolder mine(folder_, "a");
  fs::create_directories(folder_ / "whole");
  std::ofstream(folder_ / "whole" / "sign") << "theirs";
  mine.publish(folder_ / "whole", "sign");
  EXPECT_TRUE(fs::exists(folder_ / "whole" / "sign"));
}

TEST_F(DraftFolderTest, AFolderThatCannotGetItsNameIsAnErrorOfStorage) {
  core::DraftFolder draft(folder_, "a");
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
  const core::DraftFolder living(folder_, "a");
  const pid_t child = ::fork();
  if (child == 0) {
    const core::DraftFolder draft(folder_, "a");
    ::_exit(0);  // as a kill: no destructor runs
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_EQ(names().size(), 2U);
  core::sweep_drafts(folder_, "");
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
  core::sweep_drafts(folder_, "");
  std::vector<std::string> left = names();
  std::sort(left.begin(), left.end());
  EXPECT_EQ(left, (std::vector<std::string>{".tmp-a-00000002", ".tmp-other-name", "a-00000001"}));
}

// A file is locked itself (core::OutputFile); one that nobody locks may be another program's.
TEST_F(DraftFolderTest, AFileThatIsBeingWrittenIsHeldHoweverOldItIs) {
  fs::create_directories(folder_);
  core::OutputFile living(folder_ / "trace.json");
  for (const auto& entry : fs::directory_iterator(folder_)) {
    make_old(entry.path());
    EXPECT_TRUE(core::is_held(entry.path()));
  }
  std::ofstream(folder_ / ".tmp-note-00000001") << "half";
  EXPECT_FALSE(core::is_held(folder_ / ".tmp-note-00000001"));
  make_old(folder_ / ".tmp-note-00000001");
  core::sweep_drafts(folder_, "");
  EXPECT_EQ(names().size(), 1U);
  EXPECT_EQ(living.finish(), "");
  EXPECT_EQ(names(), std::vector<std::string>{"trace.json"});
}

TEST_F(DraftFolderTest, ASweepOfOneNameLeavesTheOthers) {
  for (const char* name : {".tmp-mine-00000001", ".tmp-theirs-00000001"}) {
    fs::create_directories(folder_ / name);
    make_old(folder_ / name);
  }
  core::sweep_drafts(folder_, "mine");
  EXPECT_EQ(names(), std::vector<std::string>{".tmp-theirs-00000001"});
}

}  // namespace
}  // namespace fm::checkpoint
