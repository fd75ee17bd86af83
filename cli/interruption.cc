#include "cli/interruption.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <iterator>

#include "core/check.h"

namespace fm::cli {
namespace {

sigset_t set_of(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return set;
}

// As if nobody had blocked it.
void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  const sigset_t set = set_of(signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ::kill(::getpid(), signal);
}

}  // namespace

Interruption::Interruption() {
  sigemptyset(&ends_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_IGN) sigaddset(&ends_, signal);  // as nohup asks
  }
  pthread_sigmask(SIG_BLOCK, &ends_, &before_);
  signals_ = signalfd(-1, &ends_, SFD_NONBLOCK | SFD_CLOEXEC);
  end_ = eventfd(0, EFD_CLOEXEC);
  FM_CHECK(signals_ >= 0 && end_ >= 0, "signals cannot be queued");
  listener_ = std::thread([this] { listen(); });
}

Interruption::~Interruption() {
  eventfd_write(end_, 1);
  listener_.join();
  close(signals_);
  close(end_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int Interruption::next_signal() const {
  signalfd_siginfo info{};
  const bool there = ::read(signals_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info));
  return there ? static_cast<int>(info.ssi_signo) : 0;
}

void Interruption::listen() {
  pollfd waits[] = {{signals_, POLLIN, 0}, {end_, POLLIN, 0}};
  while (poll(waits, std::size(waits), -1) < 0 || waits[1].revents == 0) {
    const std::lock_guard lock(mutex_);
    const int signal = next_signal();
    if (signal == 0) continue;  // a question took it
    if (!somebody_asks_ || signal_ != 0) end_by(signal);
    signal_ = signal;
  }
}

bool Interruption::asked() {
  const std::lock_guard lock(mutex_);
  somebody_asks_ = true;
  if (signal_ == 0) signal_ = next_signal();
  return signal_ != 0;
}

std::function<bool()> Interruption::question() {
  return [this] { return asked(); };
}

void Interruption::end_as_asked() const {
  if (signal_ != 0) end_by(signal_);
}

}  // namespace fm::cli
