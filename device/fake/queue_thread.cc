#include "device/fake/queue_thread.h"

#include <chrono>
#include <utility>

namespace fm::device {
namespace {

// Most tasks begin at once; some are late, and now and then a queue is late for a while.
constexpr std::uint64_t kLateOneIn = 16;
constexpr std::uint64_t kMostLateUs = 200;
constexpr std::uint64_t kSlowOneIn = 512;
constexpr int kSlowTasks = 24;

}  // namespace

QueueThread::QueueThread(std::uint64_t seed) : random_(seed), thread_([this] { run(); }) {}

QueueThread::~QueueThread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void QueueThread::push(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

std::exception_ptr QueueThread::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void QueueThread::sleep() {
  if (random_() % kSlowOneIn == 0) slow_tasks_ = kSlowTasks;
  const bool slow = slow_tasks_ > 0;
  if (slow) --slow_tasks_;
  if (!slow && random_() % kLateOneIn != 0) return;
  std::this_thread::sleep_for(std::chrono::microseconds(random_() % kMostLateUs));
}

void QueueThread::run() {
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    sleep();
    try {
      task();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (failure_ == nullptr) failure_ = std::current_exception();
    }
  }
}

}  // namespace fm::device
