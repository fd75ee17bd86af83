// Files that flags name: whole or as before, and never in the place of a device.
#include "core/files/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>
#include <vector>

#include "core/check.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::core {
namespace {

namespace fs = std::filesystem;
using testing::file_content;
using testing::ScratchFolder;

std::string names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

// Of the numbers of /dev/null; needs root, as in containers.
bool make_null(const fs::path& path) {
  return ::mknod(path.c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0;
}

TEST(OutputFile, TheFileIsAnotherOneAndNothingElseStays) {
  const ScratchFolder scratch;
  const fs::path file = scratch.write("run.prom", "old");
  std::ifstream reader(file);  // began before the replacement
  EXPECT_EQ(write_output_file(file, "new"), "");
  EXPECT_EQ(file_content(file), "new");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(reader), {}), "old");
  EXPECT_EQ(names_in(scratch.path()), "run.prom");
}

TEST(OutputFile, UntilItIsFinishedTheOldFileStands) {
  const ScratchFolder scratch;
  const fs::path file = scratch.write("page.html", "old");
  {
    OutputFile output(file);
    output.add("half");
    EXPECT_EQ(file_content(file), "old");
  }
  EXPECT_EQ(file_content(file), "old");
  EXPECT_EQ(names_in(scratch.path()), "page.html");
}

TEST(OutputFile, APlaceThatCannotBeIsAReason) {
  const ScratchFolder scratch;
  EXPECT_EQ(OutputFile(scratch.path() / "none" / "file").error(), ENOENT);
  fs::create_directories(scratch.path() / "taken" / "below");
  EXPECT_EQ(write_output_file(scratch.path() / "taken", "x"), "Is a directory");
  scratch.write("file", "");
  EXPECT_EQ(write_output_file(scratch.path() / "file" / "below", "x"), "Not a directory");
  EXPECT_EQ(names_in(scratch.path()), "file taken");
}

TEST(OutputFile, ADeviceIsWrittenThroughAndStays) {
  const ScratchFolder scratch;
  const fs::path device = scratch.path() / "null";
  if (!make_null(device)) GTEST_SKIP() << "only root makes devices";
  EXPECT_EQ(write_output_file(device, "gone"), "");
  EXPECT_TRUE(fs::is_character_file(device));
  fs::create_symlink(device, scratch.path() / "link");
  EXPECT_EQ(write_output_file(scratch.path() / "link", "gone"), "");
  EXPECT_TRUE(fs::is_character_file(device));
  EXPECT_EQ(names_in(scratch.path()), "link null");
}

TEST(OutputFile, AFullDeviceIsAReason) {
  EXPECT_EQ(write_output_file("/dev/full", "text"), "No space left on device");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST(OutputFile, APipeIsWrittenThroughAndOneThatNobodyReadsIsAReason) {
  const ScratchFolder scratch;
  const fs::path pipe = scratch.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(OutputFile(pipe).error(), ENXIO);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  EXPECT_EQ(write_output_file(pipe, "text"), "");
  char read[8] = {};
  EXPECT_EQ(::read(reader, read, sizeof(read)), 4);
  EXPECT_EQ(std::string(read), "text");
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(names_in(scratch.path()), "pipe");
}

TEST(OutputFile, AReaderThatComesLaterIsWaitedFor) {
  const ScratchFolder scratch;
  const fs::path pipe = scratch.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = file_content(pipe); });  // opens when it runs
  OutputFile output(pipe, 60'000);
  output.add("text");
  EXPECT_EQ(output.finish(), "");
  reader.join();
  EXPECT_EQ(read, "text");
}

// As a shell's >, and not as a bare rename.
TEST(OutputFile, ALinkStaysAndWhatItLeadsToIsWritten) {
  const ScratchFolder scratch;
  fs::create_directory(scratch.path() / "far");
  const std::string file = scratch.write("far/file", "old");
  fs::create_symlink("far/file", scratch.path() / "near");
  fs::create_symlink("near", scratch.path() / "nearer");
  EXPECT_EQ(write_output_file(scratch.path() / "nearer", "new"), "");
  EXPECT_EQ(file_content(file), "new");
  EXPECT_TRUE(fs::is_symlink(scratch.path() / "near"));
  fs::create_symlink("far/later", scratch.path() / "ahead");  // of what is not there yet
  EXPECT_EQ(write_output_file(scratch.path() / "ahead", "first"), "");
  EXPECT_EQ(file_content(scratch.path() / "far" / "later"), "first");
  fs::create_symlink("round", scratch.path() / "round");
  EXPECT_EQ(OutputFile(scratch.path() / "round").error(), ELOOP);
  EXPECT_EQ(names_in(scratch.path()), "ahead far near nearer round");
  EXPECT_EQ(names_in(scratch.path() / "far"), "file later");
}

// /dev/stdout leads to a file that others hold open: they would go on with one without a name.
TEST(OutputFile, AnOpenFileOfTheProcessIsWrittenThrough) {
  const ScratchFolder scratch;
  const std::string file = scratch.write("file", "old");
  const int held = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  EXPECT_EQ(write_output_file("/proc/self/fd/" + std::to_string(held), "text"), "");
  char read[8] = {};
  EXPECT_EQ(::pread(held, read, sizeof(read), 0), 4);
  ::close(held);
}

TEST(OutputFile, KeepsTheModeOfTheFileBefore) {
  const ScratchFolder scratch;
  const std::string file = scratch.write("file", "old");
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(write_output_file(file, "new"), "");
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

// A child dies as by kill -9; the parent holds an unfinished one of the same name.
TEST(OutputFile, WhatADeadProcessLeftGoesAndWhatIsBeingWrittenStays) {
  const ScratchFolder scratch;
  const std::string file = scratch.write("file", "old");
  scratch.write(".tmp-file-of-another-01234567", "another name");
  OutputFile living(file);
  living.add("living");
  const pid_t child = ::fork();
  if (child == 0) {
    OutputFile dead(file);
    dead.add("dead");
    ::_exit(0);  // no destructor runs
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const auto entries = [&] {
    return std::distance(fs::directory_iterator(scratch.path()), fs::directory_iterator());
  };
  EXPECT_EQ(entries(), 4);
  EXPECT_EQ(write_output_file(file, "new"), "");
  EXPECT_EQ(entries(), 3);
  EXPECT_EQ(living.finish(), "");
  EXPECT_EQ(file_content(file), "living");
}

TEST(OutputFile, WhatDoesNotFitLeavesTheOldFile) {
  const ScratchFolder scratch;
  const std::string file = scratch.write("file", "old");
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{8, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string problem = write_output_file(file, "more than eight bytes");
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(problem, "File too large");
  EXPECT_EQ(file_content(file), "old");
  EXPECT_EQ(names_in(scratch.path()), "file");
}

TEST(CheckOutput, ADiskIsToBlameForWhatNoOtherNameMends) {
  check_output({"page", "--out"}, "page.html", 0);
  for (const int error : {ENOENT, EACCES, EISDIR, ENOTDIR, ENXIO, ENAMETOOLONG}) {
    const std::string said = testing::message_of<UserError>(10, [&] {
      check_output({"page", "--out"}, "a/b", error);
    });
    EXPECT_NE(said.find("with --out FILE (a/b: "), std::string::npos) << said;
  }
  for (const int error : {EROFS, ENOSPC, EDQUOT, EIO}) {
    const std::string said = testing::message_of<MachineError>(26, [&] {
      check_output({"page", "--out"}, "a/b", error);
    });
    EXPECT_NE(said.find("with --out FILE (a/b: "), std::string::npos) << said;
  }
}

TEST(BehindLinks, LeavesWhatIsNoLinkAlone) {
  EXPECT_EQ(behind_links("a/b"), "a/b");
  EXPECT_EQ(behind_links("/dev/stdout").string().substr(0, 6), "/proc/");
}

}  // namespace
}  // namespace fm::core
