// SIGTERM, SIGINT and SIGUSR1 as messages that are read between steps, not as interruptions.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace fm::engine {

// SIGINT (Ctrl-C) asks for the same as SIGTERM. Before begin_run() either ends the process with
// code 75: nothing has begun. Later the first one is a message; another, five seconds or more after
// it, ends the process with code 128 + its number, for a run that waits for somebody who does not
// come. Sooner it counts as the same one: a batch system sends it to all processes, mpirun hands on
// its own a second later, and torchrun hands on the Ctrl-C that the terminal sends to all. Only a
// second SIGINT of the same sender, somebody who presses Ctrl-C twice, ends at once.
//
// Invariant: while it lives these signals are blocked in all threads but its own.
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
    bool terminate = false;  // SIGTERM or SIGINT: save, then exit 75
  };
  void begin_run() { running_ = true; }
  // Before begin_run(): ends the process if SIGTERM or SIGINT has been sent by now. Who is about to
  // end for another reason asks first: where all ranks are stopped at once, one may learn that
  // another has ended before its own signal is read.
  void end_if_asked() {
    if (!running_) take();
  }
  // Whether something has arrived that read() would tell.
  bool waits() const { return save_ || terminate_; }
  // The first SIGTERM or SIGINT. `by_launcher`: it came from the process that started this one, or
  // from none that can be seen here (a container's host, the terminal).
  struct Stopped {
    double seconds_ago = 0.0;
    bool by_launcher = false;
  };
  std::optional<Stopped> stopped();
  // What has arrived since the last time; never waits.
  Requests read() {
    return {.save = save_.exchange(false), .terminate = terminate_.exchange(false)};
  }

 private:
  // When and from whom the first one came.
  struct Stop {
    std::chrono::steady_clock::time_point at;
    std::uint32_t signal = 0;
    std::uint32_t sender = 0;  // pid; 0: the terminal
    std::uint32_t parent = 0;  // of this process then
  };

  void listen();
  void take();  // what has been sent by now
  void stop(const Stop& now);

  EndProcess end_process_;
  int signals_ = -1;
  int end_ = -1;  // readable when the listener shall end
  std::atomic<bool> running_ = false;
  std::atomic<bool> save_ = false;
  std::atomic<bool> terminate_ = false;
  std::mutex taking_;
  std::optional<Stop> first_stop_;  // guarded by taking_
  std::thread listener_;
};

// Whether SIGTERM or SIGINT has arrived since the last time; never, where there is no inbox.
std::function<bool()> asked_to_end(SignalInbox* signals);

}  // namespace fm::engine
