// SIGTERM and SIGUSR1 as messages that are read between steps, not as interruptions.
#pragma once

namespace fm::engine {

// Invariant: while it lives the two signals are blocked in this thread and in threads made later,
//            and wait in a queue.
// Thread:    constructed by main before any other thread; read by the rank's thread.
// Lifetime:  one per process.
class SignalInbox {
 public:
  SignalInbox();
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  struct Requests {
    bool save = false;       // SIGUSR1: save and go on
    bool terminate = false;  // SIGTERM: save, then exit 75
  };
  // Reads what has arrived; never waits.
  Requests read();

 private:
  int fd_ = -1;
};

}  // namespace fm::engine
