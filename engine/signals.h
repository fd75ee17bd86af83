// SIGTERM and SIGUSR1 as messages that are read between steps, not as interruptions.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace fm::engine {

// Before begin_run() a SIGTERM ends the process with code 75: nothing has begun. Later the first
// one is a message; another, five seconds or more after it, ends the process with code 143, for a
// run that waits for somebody who does not come. Sooner it counts as the same one: a batch system
// sends it to all processes, and mpirun hands on its own a second later.
//
// Invariant: while it lives the two signals are blocked in all threads but its own.
// Thread:    constructed by main before any other thread; read by the rank's thread.
// Lifetime:  one per process.
class SignalInbox {
 public:
  // Called on a thread of its own with the reason and the code; does not return.
  using EndProcess = std::function<void(const char* why, int code)>;

  explicit SignalInbox(EndProcess end_process);
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  struct Requests {
    bool save = false;       // SIGUSR1: save and go on
    bool terminate = false;  // SIGTERM: save, then exit 75
  };
  void begin_run() { running_ = true; }
  // What has arrived since the last time; never waits.
  Requests read() {
    return {.save = save_.exchange(false), .terminate = terminate_.exchange(false)};
  }

 private:
  void listen();

  EndProcess end_process_;
  int signals_ = -1;
  int end_ = -1;  // readable when the listener shall end
  std::atomic<bool> running_ = false;
  std::atomic<bool> save_ = false;
  std::atomic<bool> terminate_ = false;
  std::thread listener_;
};

}  // namespace fm::engine
