// A queue of the fake device: a thread that runs what is queued, later than it might.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "device/fake/queue_runner.h"

namespace fm::device {

// Sleeps before a task for a time that follows from the seed, so that another order of two queues
// is tried with another seed.
//
// Thread:   any.
// Lifetime: as QueueRunner.
class QueueThread : public QueueRunner {
 public:
  explicit QueueThread(std::uint64_t seed);
  ~QueueThread() override;
  QueueThread(const QueueThread&) = delete;
  QueueThread& operator=(const QueueThread&) = delete;

  void push(Task task) override;
  bool hurry() override { return false; }
  std::exception_ptr failure() const override;

 private:
  void run();
  void sleep();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool ending_ = false;
  std::exception_ptr failure_;
  std::mt19937_64 random_;
  int slow_tasks_ = 0;
  std::thread thread_;
};

}  // namespace fm::device
