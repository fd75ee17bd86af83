#include "core/files/durable_file.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "core/check.h"
#include "tests/checkpoint/checkpoint_cases.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::file_content;
using testing::listing;

int refuse_like_nfs(const char*, const char*, unsigned) {
  errno = EINVAL;
  return -1;
}

class PublishFolder : public ::testing::TestWithParam<core::FlaggedRename> {
 protected:
  fs::path folder_with(const char* name, const char* content) {
    fs::create_directory(folder_.path() / name);
    std::ofstream(folder_.path() / name / "file") << content;
    return folder_.path() / name;
  }
  testing::ScratchFolder folder_;
};

TEST_P(PublishFolder, AFreeNameIsTaken) {
  EXPECT_FALSE(core::publish_folder(folder_with("new", "2"), folder_.path() / "name", GetParam()));
  EXPECT_EQ(listing(folder_.path()), "name");
  EXPECT_EQ(file_content(folder_.path() / "name" / "file"), "2");
}

TEST_P(PublishFolder, ATakenNameIsExchangedAsOftenAsYouLike) {
  folder_with("name", "0");
  folder_with("name.old", "of the user");
  for (const char* content : {"1", "2", "3"}) {
    const std::string before = file_content(folder_.path() / "name" / "file");
    const fs::path fresh = folder_with("new", content);
    EXPECT_TRUE(core::publish_folder(fresh, folder_.path() / "name", GetParam()));
    EXPECT_EQ(file_content(folder_.path() / "name" / "file"), content);
    EXPECT_EQ(file_content(fresh / "file"), before);
    EXPECT_EQ(listing(folder_.path()), "name name.old new");
    fs::remove_all(fresh);
  }
}

TEST_P(PublishFolder, WhatCannotBePublishedLeavesTheOldOneInPlace) {
  folder_with("name", "1");
  EXPECT_NE(testing::message_of<core::MachineError>(26,
                                                    [&] {
                                                      core::publish_folder(
                                                          folder_.path() / "absent",
                                                          folder_.path() / "name", GetParam());
                                                    })
                .find("rename to"),
            std::string::npos);
  EXPECT_EQ(listing(folder_.path()), "name");
  EXPECT_EQ(file_content(folder_.path() / "name" / "file"), "1");
}

INSTANTIATE_TEST_SUITE_P(AnyFileSystem, PublishFolder,
                         ::testing::Values(&core::flagged_rename, &refuse_like_nfs),
                         [](const auto& at) { return at.index == 0 ? "Flags" : "NoFlags"; });

// What a crash leaves in the middle of an exchange without flags is kept by the next start.
TEST(PutAside, TheNameIsUniqueAndNoLeftover) {
  const testing::ScratchFolder folder;
  for (int round = 0; round < 3; ++round) {
    fs::create_directory(folder.path() / "global_step5");
    const fs::path aside = core::put_aside(folder.path() / "global_step5");
    EXPECT_TRUE(fs::is_directory(aside));
    EXPECT_EQ(aside.filename().string().find(".bad-global_step5-"), 0U);
    EXPECT_FALSE(core::is_leftover(aside.filename().string()));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 3);
}

TEST(MakeFolders, MakesWhatIsMissingAndNamesWhatIsInTheWay) {
  const testing::ScratchFolder folder;
  core::make_folders(folder.path() / "a" / "b" / "");
  core::make_folders(folder.path() / "a" / "b");
  EXPECT_TRUE(fs::is_directory(folder.path() / "a" / "b"));
  const std::string file = folder.write("file", "");
  EXPECT_NE(
      testing::message_of<core::MachineError>(26, [&] { core::make_folders(file + "/below"); })
          .find(file),
      std::string::npos);
}

}  // namespace
}  // namespace fm::checkpoint
