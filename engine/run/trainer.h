// A training run from options to exit code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "engine/options.h"
#include "engine/run/signals.h"
#include "engine/state/arithmetic.h"
#include "machine/limits.h"
#include "model/families/family.h"

namespace fm::engine {

// What only the program that was started knows.
struct RunContext {
  std::string launch_decision;  // how ranks were found, one line
  std::string machine;          // CPU and libraries, one line for the banner
  bool terminal = false;        // stdout is a terminal: a live line instead of many
  std::string version = "";
  SignalInbox* signals = nullptr;  // null: signals act as the system does
  std::vector<machine::MemoryLimit> memory =
      {};  // of this rank's host; empty: whatever is asked for
  // Absent: asked of the libraries of this process.
  std::optional<Arithmetic> arithmetic = std::nullopt;
};

// Collective over `world`. `opened`: of the same options (open_run_model). Returns the exit code:
// 0, or 75 after SIGTERM with the state saved. Throws core::Error.
int train(const TrainOptions& options, const model::OpenedModel& opened, comm::Communicator& world,
          const RunContext& context);

}  // namespace fm::engine
