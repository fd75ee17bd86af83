// When the tasks of a queue of the fake device run.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <utility>

namespace fm::device {

// Invariant: tasks run in their order. One that fails lets the others go: their results do not
//            matter any more, and an event behind it throws.
// Thread:    any.
// Lifetime:  ends when all that is queued is done.
class QueueRunner {
 public:
  using Task = std::function<void()>;

  virtual ~QueueRunner() = default;
  virtual void push(Task task) = 0;
  // Somebody waits: runs the next task here. False: tasks run elsewhere, or none is left.
  virtual bool hurry() = 0;
  // Of the first task that failed; null: none did.
  virtual std::exception_ptr failure() const = 0;
};

// Tasks run when they are queued, or when somebody waits: the two ends of what may happen, and
// the same in every run. Two queues without an order between them show it where one is early and
// the other late.
//
// Thread: one, of all queues of a device.
class EarlyOrLate : public QueueRunner {
 public:
  enum class When : std::uint8_t { kEarly, kLate };
  explicit EarlyOrLate(When when) : when_(when) {}
  ~EarlyOrLate() override { run(); }
  EarlyOrLate(const EarlyOrLate&) = delete;
  EarlyOrLate& operator=(const EarlyOrLate&) = delete;

  void push(Task task) override {
    tasks_.push_back(std::move(task));
    if (when_ == When::kEarly) run();
  }
  bool hurry() override { return run_next(); }
  std::exception_ptr failure() const override { return failure_; }

 private:
  void run() {
    while (run_next()) {
    }
  }
  bool run_next() {
    if (tasks_.empty()) return false;
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    try {
      task();
    } catch (...) {
      if (failure_ == nullptr) failure_ = std::current_exception();
    }
    return true;
  }

  When when_;
  std::deque<Task> tasks_;
  std::exception_ptr failure_;
};

}  // namespace fm::device
