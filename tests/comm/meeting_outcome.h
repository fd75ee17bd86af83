// What becomes of one rank's meeting.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "comm/meet/meeting.h"
#include "core/check.h"

namespace fm::comm {

struct Outcome {
  Meeting meeting;
  std::string error;
  core::ExitCode code = core::ExitCode::kFinished;
  int spent_ms = 0;
};

inline Outcome outcome_of(const std::function<Meeting()>& meet) {
  Outcome outcome;
  const auto begin = std::chrono::steady_clock::now();
  try {
    outcome.meeting = meet();
  } catch (const core::MachineError& error) {
    outcome.error = error.what();
    outcome.code = error.code();
  }
  const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin);
  outcome.spent_ms = static_cast<int>(spent.count());
  return outcome;
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace fm::comm
