// In which order moves may begin, and blocks do.
#include "offload/disk/move_order.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "offload/disk/disk_loop.h"
#include "offload/slice_store.h"

namespace fm::offload {
namespace {

using core::Bytes;

constexpr std::size_t kSize = 4096;
constexpr BlockDirection kRead = BlockDirection::kRead;
constexpr BlockDirection kWrite = BlockDirection::kWrite;

class MoveOrderTest : public testing::Test {
 protected:
  MoveOrderTest() : memory_(8 * kSize) {}

  // Of `pages` pages at page `at` of the store, with the memory from page `here` on.
  DiskMovePtr move(BlockDirection direction, int at, int here, int pages = 1) {
    const auto size = kSize * static_cast<std::size_t>(pages);
    return std::make_shared<DiskMove>(DiskMove{
        .direction = direction,
        .at = kPage * at,
        .size = kPage * pages,
        .memory = std::span(memory_).subspan(kSize * static_cast<std::size_t>(here), size)});
  }
  DiskMovePtr add(BlockDirection direction, int at, int here, int pages = 1) {
    const DiskMovePtr made = move(direction, at, here, pages);
    order_.add(made);
    return made;
  }

  std::vector<std::byte> memory_;
  MoveOrder order_;
};

using Moves = std::vector<DiskMovePtr>;

TEST_F(MoveOrderTest, WhatIsReadWaitsUntilItsMemoryIsWritten) {
  const DiskMovePtr leaves = add(kWrite, 0, 0, 2);
  const DiskMovePtr comes = add(kRead, 5, 1);
  const DiskMovePtr beside = add(kRead, 6, 2);
  EXPECT_EQ(order_.take_ready(), (Moves{leaves, beside}));
  order_.end(leaves);
  EXPECT_EQ(order_.take_ready(), Moves{comes});
}

TEST_F(MoveOrderTest, WhatIsWrittenWaitsUntilItsMemoryIsRead) {
  const DiskMovePtr comes = add(kRead, 5, 1);
  const DiskMovePtr leaves = add(kWrite, 0, 0, 2);
  EXPECT_EQ(order_.take_ready(), Moves{comes});
  order_.end(comes);
  EXPECT_EQ(order_.take_ready(), Moves{leaves});
}

TEST_F(MoveOrderTest, WritesFromTheSameMemoryAreOneAfterTheOtherAtOnePlaceAlone) {
  const DiskMovePtr first = add(kWrite, 0, 0);
  const DiskMovePtr elsewhere = add(kWrite, 1, 0);
  const DiskMovePtr again = add(kWrite, 0, 0);
  EXPECT_EQ(order_.take_ready(), (Moves{first, elsewhere}));
  order_.end(first);
  EXPECT_EQ(order_.take_ready(), Moves{again});
}

// Ends blocks when it is told to, the oldest first, and remembers which way they went.
class SlowEngine : public DiskEngine {
 public:
  void start(std::size_t slot, const DiskBlock& block) override {
    const std::scoped_lock lock(mutex_);
    started_.push_back(block.direction);
    under_way_.push_back({slot, static_cast<int>(block.memory.size())});
    news_.notify_all();
  }
  void wait(std::vector<DiskDone>& done) override {
    std::unique_lock lock(mutex_);
    news_.wait(lock, [&] { return woken_ || (goes_ && !under_way_.empty()); });
    woken_ = false;
    if (!goes_ || under_way_.empty()) return;
    done.push_back(under_way_.front());
    under_way_.erase(under_way_.begin());
  }
  void wake() override {
    const std::scoped_lock lock(mutex_);
    woken_ = true;
    news_.notify_all();
  }
  std::string will_use(std::span<std::byte> /*memory*/) override { return ""; }

  void go() {
    const std::scoped_lock lock(mutex_);
    goes_ = true;
    news_.notify_all();
  }
  void wait_for_started(std::size_t blocks) {
    std::unique_lock lock(mutex_);
    news_.wait(lock, [&] { return started_.size() >= blocks; });
  }
  std::vector<BlockDirection> started() {
    const std::scoped_lock lock(mutex_);
    return started_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable news_;
  bool woken_ = false;
  bool goes_ = false;
  std::vector<BlockDirection> started_;
  std::vector<DiskDone> under_way_;
};

// With two blocks under way, the read comes before the writes that still wait.
TEST_F(MoveOrderTest, AReadIsNotBehindAllWritesBeforeIt) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("fm_move_order" + std::to_string(::getpid()));
  std::vector<DriveFile> files;
  files.emplace_back(folder, FileSpec{.run = "run", .bytes = kPage * 8});
  auto made = std::make_unique<SlowEngine>();
  SlowEngine& engine = *made;
  DiskLoop loop(std::move(files), {.stripe = kPage * 8}, std::move(made), kPage * 8,
                {.block = kPage, .depth = 2, .checks = false});
  const DiskMovePtr writes = move(kWrite, 0, 0, 4);
  loop.ask(writes);
  engine.wait_for_started(2);
  const DiskMovePtr read = move(kRead, 6, 6);
  loop.ask(read);
  engine.go();
  loop.wait(writes);
  loop.wait(read);
  EXPECT_EQ(engine.started(), (std::vector<BlockDirection>{kWrite, kWrite, kRead, kWrite, kWrite}));
  EXPECT_TRUE(writes->problem.empty() && read->problem.empty());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace fm::offload
