// Signals in a program whose output appears whole or not at all: what is unfinished is removed
// before the program ends.
#pragma once

#include <csignal>
#include <functional>
#include <mutex>
#include <thread>

namespace fm::cli {

// SIGINT, SIGTERM and SIGHUP, as far as the process does not ignore them, end it at once, as ever,
// until somebody asks. From then on who asks ends the work, and the process ends by the signal
// afterwards, so that a shell sees what it sees of other programs. A second one ends it at once.
//
// Invariant: while it lives these signals are blocked in all threads.
// Thread:    made by main before any other thread; any thread may ask.
// Lifetime:  one per process.
class Interruption {
 public:
  Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  ~Interruption();

  // Whether the work shall end.
  std::function<bool()> question();
  // Ends the process by the signal that questions told of; returns where there is none.
  void end_as_asked() const;

 private:
  bool asked();
  void listen();
  int next_signal() const;  // 0: none

  sigset_t ends_{};
  sigset_t before_{};
  int signals_ = -1;
  int end_ = -1;  // readable when the listener shall end
  std::mutex mutex_;
  bool somebody_asks_ = false;
  int signal_ = 0;  // the first since somebody asks
  std::thread listener_;
};

}  // namespace fm::cli
