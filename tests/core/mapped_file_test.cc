#include "core/files/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "core/check.h"

namespace fm::core {
namespace {

std::string written(const std::string& name, std::string_view content) {
  const std::string path = ::testing::TempDir() + "fm_mapped_" + name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

TEST(MappedFile, HoldsTheBytesOfTheFile) {
  const MappedFile file(written("bytes", std::string_view("a\0b\n", 4)));
  EXPECT_EQ(file.text(), std::string_view("a\0b\n", 4));
  EXPECT_EQ(file.bytes().size(), 4U);
}

TEST(MappedFile, AnEmptyFileIsEmpty) {
  EXPECT_TRUE(MappedFile(written("empty", "")).bytes().empty());
}

TEST(MappedFile, MoveLeavesNothingBehind) {
  MappedFile source(written("moved", "hello"));
  const MappedFile target(std::move(source));
  EXPECT_EQ(target.text(), "hello");
  EXPECT_TRUE(source.bytes().empty());  // NOLINT(bugprone-use-after-move): the promise under test
}

// Pages of [begin, end) of the file that are in this process's memory.
std::size_t present(const MappedFile& file, std::size_t begin, std::size_t end) {
  constexpr std::size_t kPage = 4096;
  const int map = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  std::size_t count = 0;
  for (std::size_t at = begin; at < end; at += kPage) {
    const auto address = reinterpret_cast<std::uintptr_t>(file.bytes().data() + at);
    std::uint64_t entry = 0;
    const auto offset = static_cast<off_t>(address / kPage * sizeof(entry));
    EXPECT_EQ(::pread(map, &entry, sizeof(entry), offset), static_cast<ssize_t>(sizeof(entry)));
    count += entry >> 63;  // bit 63: present
  }
  ::close(map);
  return count;
}

TEST(MappedFile, WhatWasReadMayBeLetGo) {
  constexpr std::size_t kPage = 4096;
  if (sysconf(_SC_PAGESIZE) != kPage) GTEST_SKIP() << "pages are of another size";
  const MappedFile file(written("let_go", std::string(64 * kPage, 'x')));
  const auto sum = [&] {
    return std::accumulate(file.text().begin(), file.text().end(), std::size_t{0});
  };
  EXPECT_EQ(sum(), 64 * kPage * 'x');
  EXPECT_EQ(present(file, 0, 64 * kPage), 64U);
  file.let_go(file.bytes().subspan(10, 20));  // no whole page
  EXPECT_EQ(present(file, 0, 64 * kPage), 64U);
  file.let_go(file.bytes().subspan(kPage / 2, 32 * kPage));
  EXPECT_EQ(present(file, kPage, 32 * kPage), 0U);
  EXPECT_EQ(present(file, 33 * kPage, 64 * kPage), 31U);
  EXPECT_EQ(sum(), 64 * kPage * 'x');
}

// What is beyond the new end would be a SIGBUS; on the page of the new end zeros follow anyway.
TEST(MappedFile, AFileThatIsCutWhileItIsReadEndsWithItsName) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::string path = written("cut", std::string(64 * page, 'x'));
  const MappedFile other(written("whole", std::string(8 * page, 'y')));
  const MappedFile file(path);
  EXPECT_EQ(file.text()[5 * page], 'x');
  std::filesystem::resize_file(path, 2 * page + 10);
  EXPECT_EQ(file.text()[2 * page + 9], 'x');
  file.check_uncut();
  EXPECT_EQ(file.text()[63 * page], '\0');  // not the first page behind the end
  EXPECT_EQ(file.text()[64 * page - 1], '\0');
  EXPECT_EQ(file.text()[40 * page], '\0');
  EXPECT_EQ(file.text()[page], 'x');
  EXPECT_EQ(other.text()[7 * page], 'y');
  other.check_uncut();
  for (int again = 0; again < 2; ++again) {
    try {
      file.check_uncut();
      FAIL();
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::kDataError);
      EXPECT_TRUE(
          std::string(error.what()).starts_with(path + ": the file must stay as it is while"));
    }
  }
}

TEST(MappedFile, ManyThreadsMayReadAFileThatIsCut) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<MappedFile> files;
  for (int at = 0; at < 20; ++at) {
    const std::string path = written("cut" + std::to_string(at), std::string(256 * page, 'x'));
    files.emplace_back(path);
    std::filesystem::resize_file(path, 0);
  }
  std::vector<std::jthread> readers;
  std::atomic<std::size_t> sum = 0;
  for (int reader = 0; reader < 4; ++reader) {
    readers.emplace_back([&] {
      for (const MappedFile& file : files) {
        sum += std::accumulate(file.text().begin(), file.text().end(), std::size_t{0});
      }
    });
  }
  readers.clear();
  EXPECT_EQ(sum, 0U);
  for (const MappedFile& file : files) EXPECT_THROW(file.check_uncut(), UserError);
  files.clear();  // their places in the list are used again, for files that are whole
  files.emplace_back(written("new", std::string(page, 'z')));
  EXPECT_EQ(files[0].text()[page - 1], 'z');
  files[0].check_uncut();
}

// A program's own error stays what it was.
TEST(MappedFileDeathTest, OtherBusErrorsEndTheProcess) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::string path = written("foreign", std::string(4 * page, 'x'));
  const auto die = [&] {
    const MappedFile guarded(path);
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const auto* const foreign =
        static_cast<const char*>(::mmap(nullptr, 4 * page, PROT_READ, MAP_PRIVATE, fd, 0));
    std::filesystem::resize_file(path, 0);
    ::_exit(foreign[3 * page]);
  };
  EXPECT_DEATH(die(), "");
  EXPECT_DEATH(
      {
        const MappedFile guarded(written("raised", "x"));
        ::raise(SIGBUS);
        ::pause();
      },
      "");
}

TEST(MappedFile, WhatIsMissingOrNoFileIsADataErrorWithThePath) {
  for (const std::string& path : {::testing::TempDir() + "fm_no_such_file", ::testing::TempDir()}) {
    try {
      const MappedFile file(path);
      FAIL() << path;
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::kDataError);
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    }
  }
}

TEST(MappedFile, AFolderIsToldApartFromAnUnreadableFile) {
  try {
    const MappedFile file(::testing::TempDir());
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("a regular file is required"), std::string::npos);
  }
}

}  // namespace
}  // namespace fm::core
