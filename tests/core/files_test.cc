// Files that are read whole.
#include "core/files/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/check.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::core {
namespace {

namespace fs = std::filesystem;

class SmallFiles : public ::testing::Test {
 protected:
  fs::path write(const std::string& text) const {
    std::ofstream(folder_ / "file", std::ios::binary) << text;
    return folder_ / "file";
  }

  fs::path make_fifo() const {
    EXPECT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
    return folder_ / "fifo";
  }

  const testing::ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path();
};

TEST_F(SmallFiles, AreReadWholeUpToTheirLimit) {
  const std::string text = std::string(200'000, 'x') + std::string("\0\n", 2);
  const SmallFile whole = read_small_file(write(text), Bytes(200'002));
  EXPECT_EQ(whole.text, text);
  EXPECT_EQ(whole.problem, "");
  EXPECT_EQ(read_small_file(write(""), Bytes(0)).problem, "");
}

TEST_F(SmallFiles, ALargerOneIsRefusedWithBothSizes) {
  const SmallFile large = read_small_file(write(std::string(2'500, 'x')), Bytes(2'000));
  EXPECT_EQ(large.text, "");
  EXPECT_EQ(large.problem, "it has 2.5 kB, 2.0 kB are the most");
}

TEST_F(SmallFiles, PointersOfGitLfsAreNamed) {
  const SmallFile file = read_small_file(
      write("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n"), Bytes(200));
  EXPECT_NE(file.problem.find("pointer of Git LFS"), std::string::npos) << file.problem;
}

// The size of a file in /proc is 0, as far as stat knows.
TEST_F(SmallFiles, WhatHasNoSizeIsReadToItsEnd) {
  EXPECT_EQ(read_small_file("/proc/self/comm", Bytes(100)).problem, "");
  EXPECT_GT(read_small_file("/proc/self/comm", Bytes(100)).text.size(), 1U);
  EXPECT_EQ(read_small_file("/proc/self/status", Bytes(10)).problem, "it does not end after 10 B");
  EXPECT_EQ(read_small_file("/dev/null", Bytes(10), FileKind::kAny).problem, "");
}

TEST_F(SmallFiles, ADeviceWithoutAnEndIsRefusedAtTheLimit) {
  EXPECT_EQ(read_small_file("/dev/zero", Bytes(1'000'000), FileKind::kAny).problem,
            "it does not end after 1.0 MB");
  EXPECT_EQ(read_small_file("/dev/zero", Bytes(1'000'000)).problem, "it is no regular file");
}

TEST_F(SmallFiles, NamesThatLeadToNoFileSayWhy) {
  EXPECT_EQ(read_small_file(folder_ / "none", Bytes(10)).problem, "No such file or directory");
  EXPECT_EQ(read_small_file(folder_, Bytes(10), FileKind::kAny).problem, "it is a folder");
}

// The writing end, as soon as there is a reader; -1 where there is no pipe.
int open_for_reader(const fs::path& fifo) {
  int end = -1;
  do {
    end = ::open(fifo.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (end < 0) std::this_thread::yield();
  } while (end < 0 && errno == ENXIO);
  return end;
}

TEST_F(SmallFiles, APipeIsReadToItsEndWhoeverOpensItFirst) {
  const fs::path fifo = make_fifo();
  for (const bool writer_first : {true, false}) {
    int end = writer_first ? ::open(fifo.c_str(), O_RDWR | O_CLOEXEC) : -1;
    std::thread writer([&] {
      if (!writer_first) end = open_for_reader(fifo);
      EXPECT_EQ(::write(end, "one ", 4), 4);
      int waiting = 4;
      while (::ioctl(end, FIONREAD, &waiting) == 0 && waiting > 0) std::this_thread::yield();
      EXPECT_EQ(::write(end, "two", 3), 3);
      ::close(end);
    });
    const SmallFile read = read_small_file(fifo, Bytes(100), FileKind::kAny);
    writer.join();
    EXPECT_EQ(read.text, "one two") << writer_first;
    EXPECT_EQ(read.problem, "") << writer_first;
  }
}

TEST_F(SmallFiles, APipeThatNobodyWritesIsNotWaitedForForEver) {
  const fs::path fifo = make_fifo();
  const std::string never = "its end did not come within 1 s";
  EXPECT_EQ(read_small_file(fifo, Bytes(10), FileKind::kAny, 1'000).problem, never);
  const int writer = ::open(fifo.c_str(), O_RDWR | O_CLOEXEC);
  EXPECT_EQ(::write(writer, "x", 1), 1);
  EXPECT_EQ(read_small_file(fifo, Bytes(10), FileKind::kAny, 1'000).problem, never);
  ::close(writer);
  EXPECT_EQ(read_small_file(fifo, Bytes(10)).problem, "it is no regular file");
}

class FileStreams : public ::testing::Test {
 protected:
  std::string written(const std::string& name, const std::string& content) const {
    return scratch_.write("fm_stream_" + name, content);
  }

  const testing::ScratchFolder scratch_;
};

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

TEST_F(FileStreams, PiecesJoinToTheFile) {
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

TEST_F(FileStreams, AFileThatIsCutWhileItIsReadIsADataError) {
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

TEST_F(FileStreams, AFileThatIsWrittenWhileItIsReadIsADataError) {
  const std::string path = written("other", long_text());
  FileStream file(path);
  file.next();
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << 'x';
  // A file system's clock is coarse.
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
  EXPECT_NE(refusal(file).find("the file must stay as it is"), std::string::npos);
}

TEST_F(FileStreams, AnotherFileOfItsNameDoesNoHarm) {
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

TEST_F(FileStreams, WhatIsMissingOrNoFileIsADataErrorWithThePath) {
  const std::string pipe = scratch_.path() / "fm_stream_pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path :
       {(scratch_.path() / "fm_no_such_file").string(), scratch_.path().string(), pipe}) {
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
