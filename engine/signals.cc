#include "engine/signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <iterator>
#include <optional>
#include <utility>

#include "comm/quiet_thread.h"
#include "core/check.h"
#include "core/exit_code.h"

namespace fm::engine {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kSameSignal = std::chrono::seconds(5);

sigset_t handled() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);
  return set;
}

}  // namespace

SignalInbox::SignalInbox(EndProcess end_process) : end_process_(std::move(end_process)) {
  const sigset_t set = handled();
  FM_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0, "signals cannot be blocked");
  signals_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  end_ = eventfd(0, EFD_CLOEXEC);
  FM_CHECK(signals_ >= 0 && end_ >= 0, "signals cannot be queued");
  listener_ = comm::start_quiet_thread([this] { listen(); });
}

SignalInbox::~SignalInbox() {
  eventfd_write(end_, 1);
  listener_.join();
  close(signals_);
  close(end_);
  const sigset_t set = handled();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void SignalInbox::listen() {
  std::optional<Clock::time_point> first;
  while (true) {
    pollfd waits[] = {{signals_, POLLIN, 0}, {end_, POLLIN, 0}};
    if (poll(waits, std::size(waits), -1) < 0) continue;
    if (waits[1].revents != 0) return;
    signalfd_siginfo info{};
    if (::read(signals_, &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) continue;
    if (info.ssi_signo == SIGUSR1) save_ = true;
    if (info.ssi_signo != SIGTERM) continue;
    if (!running_) {
      end_process_("SIGTERM before the ranks have met: there is nothing to save",
                   static_cast<int>(core::ExitCode::kPreempted));
    }
    if (first && Clock::now() - *first >= kSameSignal) {
      end_process_("SIGTERM again: ending without a save", 128 + SIGTERM);
    }
    if (!first) terminate_ = true;
    if (!first) first = Clock::now();
  }
}

}  // namespace fm::engine
