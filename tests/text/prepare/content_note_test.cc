// What is noted of a file's content, and when that is believed.
#include "text/prepare/content_note.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace fm::prepare {
namespace {

namespace fs = std::filesystem;

class ContentNote : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("content_note_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    path_ = (folder_ / "a.jsonl").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

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

  fs::path folder_;
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
