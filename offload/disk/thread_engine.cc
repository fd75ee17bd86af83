#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "offload/disk/disk_engine.h"
#include "offload/disk/quiet_thread.h"

namespace fm::offload {
namespace {

// Its pages are on the disk and nowhere else when this returns. A failure shows in the next move.
void drop_from_cache(const DiskBlock& block, ssize_t bytes) {
  if (block.direction == BlockDirection::kWrite) {
    ::sync_file_range(
        block.fd, block.offset, bytes,
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  }
  ::posix_fadvise(block.fd, block.offset, bytes, POSIX_FADV_DONTNEED);
}

int move(const DiskBlock& block, Cache cache) {
  const std::span<std::byte> memory = block.memory;
  const ssize_t result = block.direction == BlockDirection::kRead
                             ? ::pread(block.fd, memory.data(), memory.size(), block.offset)
                             : ::pwrite(block.fd, memory.data(), memory.size(), block.offset);
  if (result < 0) return -errno;
  if (cache == Cache::kThrough) drop_from_cache(block, result);
  return static_cast<int>(result);
}

class ThreadEngine : public DiskEngine {
 public:
  ThreadEngine(std::size_t slots, Cache cache) : cache_(cache) {
    while (threads_.size() < slots) threads_.push_back(start_quietly([this] { work(); }));
  }
  ~ThreadEngine() override {
    {
      const std::scoped_lock lock(mutex_);
      ending_ = true;
    }
    to_do_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void start(std::size_t slot, const DiskBlock& block) override {
    {
      const std::scoped_lock lock(mutex_);
      asked_.push_back({slot, block});
    }
    to_do_.notify_one();
  }
  void wait(std::vector<DiskDone>& done) override {
    std::unique_lock lock(mutex_);
    news_.wait(lock, [this] { return woken_ || !done_.empty(); });
    woken_ = false;
    done.insert(done.end(), done_.begin(), done_.end());
    done_.clear();
  }
  void wake() override {
    {
      const std::scoped_lock lock(mutex_);
      woken_ = true;
    }
    news_.notify_one();
  }
  std::string will_use(std::span<std::byte> /*memory*/) override { return ""; }

 private:
  struct Asked {
    std::size_t slot;
    DiskBlock block;
  };

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      to_do_.wait(lock, [this] { return ending_ || !asked_.empty(); });
      if (asked_.empty()) return;
      const Asked asked = asked_.front();
      asked_.pop_front();
      lock.unlock();
      const int result = move(asked.block, cache_);
      lock.lock();
      done_.push_back({asked.slot, result});
      news_.notify_one();
    }
  }

  const Cache cache_;
  std::mutex mutex_;
  std::condition_variable to_do_, news_;
  std::deque<Asked> asked_;
  std::vector<DiskDone> done_;
  bool woken_ = false;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<DiskEngine> thread_engine(std::size_t slots, Cache cache) {
  return std::make_unique<ThreadEngine>(slots, cache);
}

}  // namespace fm::offload
