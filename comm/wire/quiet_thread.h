// Threads of our own beside the main one.
#pragma once

#include <signal.h>

#include <thread>
#include <utility>

namespace fm::comm {

// Starts `body` on a thread with all signals blocked: signals are for the main thread.
template <class Body>
std::thread start_quiet_thread(Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace fm::comm
