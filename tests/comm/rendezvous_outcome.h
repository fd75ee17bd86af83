// The result of the rendezvous of one rank.
#pragma once

#include <functional>
#include <string>

#include "comm/meet/rendezvous.h"
#include "core/check.h"

namespace fm::comm {

struct Outcome {
  Rendezvous rendezvous;
  std::string error;
  core::ExitCode code = core::ExitCode::kFinished;
};

inline Outcome outcome_of(const std::function<Rendezvous()>& meet) {
  Outcome outcome;
  try {
    outcome.rendezvous = meet();
  } catch (const core::MachineError& error) {
    outcome.error = error.what();
    outcome.code = error.code();
  }
  return outcome;
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace fm::comm
