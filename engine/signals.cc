#include "engine/signals.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

#include "core/check.h"

namespace fm::engine {
namespace {

sigset_t handled() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);
  return set;
}

}  // namespace

SignalInbox::SignalInbox() {
  const sigset_t set = handled();
  FM_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0, "signals cannot be blocked");
  fd_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  FM_CHECK(fd_ >= 0, "signals cannot be queued");
}

SignalInbox::~SignalInbox() {
  close(fd_);
  const sigset_t set = handled();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

SignalInbox::Requests SignalInbox::read() {
  Requests out;
  signalfd_siginfo info{};
  while (::read(fd_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    if (info.ssi_signo == SIGTERM) out.terminate = true;
    if (info.ssi_signo == SIGUSR1) out.save = true;
  }
  return out;
}

}  // namespace fm::engine
