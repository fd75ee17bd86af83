#include "core/fault.h"

#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/check.h"
#include "core/text.h"

namespace fm::core {
namespace {

enum class Action : std::uint8_t {
  kKill,
  kExit,
  kNoSpace,
  kIoError,
  kSleep,
  kThrow,
  kNan,
  kSignal
};

struct ActionWord {
  std::string_view word;
  Action action;
  bool takes_number;
};
constexpr ActionWord kActionWords[] = {
    {"kill", Action::kKill, false},      {"exit", Action::kExit, true},
    {"enospc", Action::kNoSpace, false}, {"eio", Action::kIoError, false},
    {"sleep", Action::kSleep, true},     {"throw", Action::kThrow, false},
    {"nan", Action::kNan, false},        {"signal", Action::kSignal, true},
};

struct Fault {
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t> step;
  std::string point;
  Action action = Action::kKill;
  std::int64_t number = 0;
};

std::int64_t number_of(std::string_view text, std::string_view whole) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  FM_USER_CHECK(
      error == std::errc() && end == text.data() + text.size(),
      "FME_FAULT must hold whole numbers for rank, step, exit, sleep and signal; correct it (\"",
      text, "\" in \"", whole, "\")");
  return value;
}

void set_action(Fault& fault, std::string_view text, std::string_view whole) {
  const std::size_t colon = text.find(':');
  const bool has_number = colon != std::string_view::npos;
  for (const ActionWord& known : kActionWords) {
    if (known.word != text.substr(0, colon) || known.takes_number != has_number) continue;
    fault.action = known.action;
    if (has_number) fault.number = number_of(text.substr(colon + 1), whole);
    return;
  }
  FM_USER_CHECK(
      false,
      "FME_FAULT action must be one of kill, exit:N, enospc, eio, sleep:MS, throw, nan, signal:N; "
      "correct it (\"",
      text, "\" in \"", whole, "\")");
}

Fault parse_fault(std::string_view text) {
  Fault fault;
  bool has_action = false;
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
    if (key == "rank") {
      fault.rank = number_of(value, text);
    } else if (key == "step") {
      fault.step = number_of(value, text);
    } else if (key == "point") {
      fault.point = value;
    } else if (key == "action") {
      set_action(fault, value, text);
      has_action = true;
    } else {
      FM_USER_CHECK(false, "FME_FAULT keys are rank, step, point, action; correct the key (\"",
                    part, "\" in \"", text, "\")");
    }
  }
  FM_USER_CHECK(has_action && !fault.point.empty(),
                "FME_FAULT needs point=... and action=...; add them (\"", text, "\")");
  std::fprintf(stderr, "fmengine: FAULT INJECTION IS ARMED: %s\n", std::string(text).c_str());
  return fault;
}

class Registry {
 public:
  Registry() {
    const char* text = std::getenv("FME_FAULT");
    arm(text == nullptr ? "" : text);
  }

  void arm(std::string_view text) {
    std::vector<Fault> faults;
    for (const std::string& part : split(text, ';')) {
      if (!part.empty()) faults.push_back(parse_fault(part));
    }
    const std::scoped_lock lock(mutex_);
    faults_ = std::move(faults);
    armed_.store(!faults_.empty(), std::memory_order_relaxed);
  }

  std::optional<Fault> match(const FaultSite& site) {
    if (!armed_.load(std::memory_order_relaxed)) return std::nullopt;
    const std::scoped_lock lock(mutex_);
    for (const Fault& fault : faults_) {
      const bool here = fault.point == site.point && fault.rank.value_or(site.rank) == site.rank &&
                        fault.step.value_or(site.step) == site.step;
      if (here) return fault;
    }
    return std::nullopt;
  }

 private:
  std::atomic<bool> armed_{false};
  std::mutex mutex_;
  std::vector<Fault> faults_;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace

FaultEffect fault(const FaultSite& site) {
  const std::optional<Fault> hit = registry().match(site);
  if (!hit) return FaultEffect::kNone;
  std::fprintf(stderr, "fmengine: injected fault at %s, rank %d, step %lld\n", hit->point.c_str(),
               site.rank, static_cast<long long>(site.step));
  switch (hit->action) {
    case Action::kKill: ::kill(::getpid(), SIGKILL); break;
    case Action::kExit: ::_exit(static_cast<int>(hit->number));
    case Action::kNoSpace: return FaultEffect::kNoSpace;
    case Action::kIoError: return FaultEffect::kIoError;
    case Action::kSleep: std::this_thread::sleep_for(std::chrono::milliseconds(hit->number)); break;
    case Action::kThrow: throw BugError(concat("injected fault at ", site.point));
    case Action::kNan: return FaultEffect::kNan;
    case Action::kSignal: ::kill(::getpid(), static_cast<int>(hit->number)); break;
  }
  return FaultEffect::kNone;
}

void arm_faults(std::string_view text) { registry().arm(text); }

}  // namespace fm::core
