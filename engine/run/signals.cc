#include "engine/run/signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <iterator>
#include <utility>

#include "comm/wire/watchdog.h"
#include "core/check.h"

namespace fm::engine {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kSameSignal = std::chrono::seconds(5);

sigset_t handled() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
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
  while (true) {
    pollfd waits[] = {{signals_, POLLIN, 0}, {end_, POLLIN, 0}};
    if (poll(waits, std::size(waits), -1) < 0) continue;
    if (waits[1].revents != 0) return;
    take();
  }
}

void SignalInbox::take() {
  const std::lock_guard lock(taking_);
  signalfd_siginfo info{};
  while (::read(signals_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    if (info.ssi_signo == SIGUSR1) {
      save_ = true;
    } else {
      stop({Clock::now(), info.ssi_signo, info.ssi_pid, static_cast<std::uint32_t>(getppid())});
    }
  }
}

void SignalInbox::stop(const Stop& now) {
  const bool interrupt = now.signal == SIGINT;
  if (!running_) {
    end_process_(interrupt ? "SIGINT before the ranks have met: there is nothing to save"
                           : "SIGTERM before the ranks have met: there is nothing to save",
                 static_cast<int>(core::ExitCode::kPreempted));
  }
  if (!first_stop_) {
    first_stop_ = now;
    terminate_ = true;
    return;
  }
  const bool twice =
      interrupt && first_stop_->signal == SIGINT && first_stop_->sender == now.sender;
  if (!twice && now.at - first_stop_->at < kSameSignal) return;
  end_process_(
      interrupt ? "SIGINT again: ending without a save" : "SIGTERM again: ending without a save",
      128 + static_cast<int>(now.signal));
}

std::optional<SignalInbox::Stopped> SignalInbox::stopped() {
  const std::lock_guard lock(taking_);
  if (!first_stop_) return std::nullopt;
  const std::chrono::duration<double> ago = Clock::now() - first_stop_->at;
  const bool by_launcher = first_stop_->sender == 0 || first_stop_->sender == first_stop_->parent;
  return Stopped{ago.count(), by_launcher};
}

std::function<bool()> asked_to_end(SignalInbox* signals) {
  return [signals] { return signals != nullptr && signals->read().terminate; };
}

}  // namespace fm::engine
