#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/check.h"
#include "core/files.h"

namespace fm::core {
namespace {

namespace fs = std::filesystem;

std::string written(const std::string& name, const std::string& content) {
  const std::string path = ::testing::TempDir() + "fm_stream_" + name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

// Three pieces, the last one short.
std::string long_text() {
  std::string text(2 * FileStream::kPiece + 5, ' ');
  for (std::size_t at = 0; at < text.size(); ++at) text[at] = static_cast<char>(at * 31 >> 3);
  return text;
}

std::string refusal(FileStream& file) {
  try {
    file.next();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kDataError);
    return error.what();
  }
  return "NOTHING THROWN";
}

TEST(FileStream, PiecesJoinToTheFile) {
  const std::string text = long_text();
  FileStream file(written("pieces", text));
  EXPECT_EQ(file.size(), text.size());
  std::string read;
  int pieces = 0;
  for (std::string_view piece = file.next(); !piece.empty(); piece = file.next()) {
    read += piece;
    ++pieces;
  }
  EXPECT_EQ(pieces, 3);
  EXPECT_TRUE(read == text);
  EXPECT_TRUE(file.next().empty());
  EXPECT_TRUE(FileStream(written("empty", "")).next().empty());
}

TEST(FileStream, AFileThatIsCutWhileItIsReadIsADataError) {
  const std::string text = long_text();
  const std::string path = written("cut", text);
  FileStream file(path);
  EXPECT_EQ(file.next().size(), FileStream::kPiece);
  fs::resize_file(path, FileStream::kPiece + 7);
  const std::string said = refusal(file);
  EXPECT_NE(said.find("fm_stream_cut: the file must stay as it is"), std::string::npos) << said;
  EXPECT_NE(said.find(concat("(", text.size(), " bytes when it was opened, ",
                             FileStream::kPiece + 7, " now")),
            std::string::npos)
      << said;
}

TEST(FileStream, AFileThatIsWrittenWhileItIsReadIsADataError) {
  const std::string path = written("other", long_text());
  FileStream file(path);
  file.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // a file system's clock is coarse
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << 'x';
  EXPECT_NE(refusal(file).find("the file must stay as it is"), std::string::npos);
}

TEST(FileStream, AnotherFileOfItsNameDoesNoHarm) {
  const std::string text = long_text();
  const std::string path = written("replaced", text);
  FileStream file(path);
  fs::rename(written("new", "short"), path);
  std::size_t bytes = 0;
  for (std::string_view piece = file.next(); !piece.empty(); piece = file.next()) {
    bytes += piece.size();
  }
  EXPECT_EQ(bytes, text.size());
}

TEST(FileStream, WhatIsMissingOrNoFileIsADataErrorWithThePath) {
  const std::string pipe = ::testing::TempDir() + "fm_stream_pipe";
  fs::remove(pipe);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path :
       {::testing::TempDir() + "fm_no_such_file", ::testing::TempDir(), pipe}) {
    try {
      const FileStream file(path);
      FAIL() << path;
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::kDataError);
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace fm::core
