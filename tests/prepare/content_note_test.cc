// What is noted of a file's content, and when that is believed.
#include "prepare/content_note.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
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
  std::optional<fs::path> note() const {
    if (!fs::exists(folder_ / "cache")) return std::nullopt;
    for (const auto& entry : fs::directory_iterator(folder_ / "cache")) return entry.path();
    return std::nullopt;
  }

  std::string content(int later = 10) const {
    return content_of(path_, folder_ / "cache", std::time(nullptr) + later);
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
  ::usleep(50'000);  // a tick of the file system's clock
  const auto written = fs::last_write_time(path_);
  write("ac\n");
  fs::last_write_time(path_, written);  // the same size, inode and time of writing
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
