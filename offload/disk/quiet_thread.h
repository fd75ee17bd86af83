// Threads that no signal comes to.
#pragma once

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace fm::offload {

// Signals go to the threads that expect them.
template <class Body>
std::thread start_quietly(Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace fm::offload
