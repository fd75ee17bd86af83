#include "offload/disk_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <deque>
#include <fstream>
#include <random>
#include <set>

#include "core/check.h"
#include "core/fault.h"
#include "core/files/output_file.h"

namespace fm::offload {
namespace {

namespace fs = std::filesystem;
using core::Bytes;

constexpr std::int64_t kPageBytes = 4096;

class Folder {
 public:
  Folder() : path_(fs::path(testing::TempDir()) / ("disk-" + core::random_tag())) {
    fs::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }
  std::size_t entries() const {
    std::size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(path_)) {
      count += entry.is_directory() ? 0 : 1;
    }
    return count;
  }

 private:
  fs::path path_;
};

DiskPlace place_in(const Folder& folder, int drives = 1) {
  DiskPlace place{
      .folders = {}, .world_rank = 3, .run = "a run/7", .stripe = Bytes(3 * kPageBytes)};
  for (int drive = 0; drive < drives; ++drive) {
    place.folders.push_back(folder.path() / ("drive" + std::to_string(drive)));
  }
  return place;
}

// A way to a disk, and in how many drives.
struct Way {
  std::string name;
  DiskOptions options;
  int drives = 1;
};

DiskOptions options_of(DiskOptions::Method method, bool direct, bool checks = true) {
  return {.block_bytes = 2 * kPageBytes,
          .queue_depth = 4,
          .threads = 2,
          .method = method,
          .direct = direct,
          .checks = checks};
}

std::vector<Way> ways() {
  using Method = DiskOptions::Method;
  return {
      {"Threads", options_of(Method::kThreads, true)},
      {"ThreadsUnchecked", options_of(Method::kThreads, true, false), 2},
      {"ThreadsThroughTheCache", options_of(Method::kThreads, false), 3},
  };
}

class DiskStoreTest : public testing::TestWithParam<Way> {
 protected:
  std::unique_ptr<SliceStore> open(Bytes bytes) {
    return open_disk(place_in(folder_, GetParam().drives), GetParam().options, bytes);
  }
  Folder folder_;
};

INSTANTIATE_TEST_SUITE_P(Ways, DiskStoreTest, testing::ValuesIn(ways()),
                         [](const auto& at) { return at.param.name; });

// Whole pages of this process, at an address that is aligned, or that is not.
class Memory {
 public:
  Memory(std::size_t bytes, std::size_t off) : bytes_(bytes), off_(off), all_(bytes + 2 * 4096) {}
  std::span<std::byte> span() {
    const auto address = reinterpret_cast<std::uintptr_t>(all_.data());
    const std::size_t first = (4096 - address % 4096) % 4096 + off_;
    return std::span(all_).subspan(first, bytes_);
  }

 private:
  std::size_t bytes_, off_;
  std::vector<std::byte> all_;
};

void fill(std::span<std::byte> bytes, std::mt19937_64& random) {
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, 8);
  }
}

// The plain model is memory that every move changes at once, in the order of asking.
TEST_P(DiskStoreTest, RandomMovesAreThoseOfAPlainModel) {
  constexpr std::size_t kPages = 61;  // the last stripe is not whole
  const std::unique_ptr<SliceStore> store = open(Bytes(kPages * kPageBytes));
  ASSERT_EQ(store->bytes(), Bytes(kPages * kPageBytes));
  struct UnderWay {
    Memory memory;
    std::vector<std::byte> expected;  // of a read
    Move move = {};
  };
  std::vector<std::byte> model(kPages * kPageBytes);
  std::deque<UnderWay> under_way;
  std::mt19937_64 random(7);
  const auto end_first = [&] {
    under_way.front().move.wait();
    const std::span<const std::byte> read = under_way.front().memory.span();
    const std::vector<std::byte>& expected = under_way.front().expected;
    ASSERT_TRUE(expected.empty() || std::equal(read.begin(), read.end(), expected.begin()));
    under_way.pop_front();
  };
  for (int round = 0; round < 600; ++round) {
    const std::size_t first = random() % kPages;
    const std::size_t pages = 1 + random() % std::min<std::size_t>(12, kPages - first);
    const std::size_t size = pages * kPageBytes;
    under_way.push_back({.memory = Memory(size, random() % 4 == 0 ? 8 : 0), .expected = {}});
    UnderWay& at = under_way.back();
    const auto here = std::span(model).subspan(first * kPageBytes, size);
    const Bytes address(static_cast<std::int64_t>(first) * kPageBytes);
    if (random() % 2 == 0) {
      fill(at.memory.span(), random);
      std::memcpy(here.data(), at.memory.span().data(), size);
      at.move = store->write(address, at.memory.span());
    } else {
      at.expected.assign(here.begin(), here.end());
      at.move = store->read(address, at.memory.span());
    }
    while (under_way.size() > random() % 24) end_first();
  }
  while (!under_way.empty()) end_first();
}

TEST_P(DiskStoreTest, WhatWasNeverWrittenReadsAsZeros) {
  const std::unique_ptr<SliceStore> store = open(Bytes(9 * kPageBytes));
  Memory memory(9 * kPageBytes, 0);
  std::memset(memory.span().data(), 1, memory.span().size());
  store->read(Bytes(0), memory.span()).wait();
  for (const std::byte at : memory.span()) ASSERT_EQ(at, std::byte{0});
}

TEST_P(DiskStoreTest, TotalsCountWhatWasMoved) {
  const std::unique_ptr<SliceStore> store = open(Bytes(8 * kPageBytes));
  Memory memory(2 * kPageBytes, 0);
  store->write(Bytes(kPageBytes), memory.span()).wait();
  store->read(Bytes(0), memory.span()).wait();
  store->read(Bytes(0), memory.span()).wait();
  EXPECT_EQ(store->totals().written, Bytes(2 * kPageBytes));
  EXPECT_EQ(store->totals().read, Bytes(4 * kPageBytes));
  EXPECT_GT(store->totals().waited_seconds, 0.0);
}

}  // namespace
}  // namespace fm::offload
