// What only the program that was started knows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/device.h"
#include "engine/state/run_identity.h"
#include "machine/limits.h"

namespace fm::engine {

class SignalInbox;  // engine/run/signals.h

struct RunContext {
  std::string launch_decision;  // how ranks were found, one line
  std::string machine;          // CPU and libraries, one line for the banner
  bool terminal = false;        // stdout is a terminal: a live line instead of many
  std::string version = "";
  core::Device* device = nullptr;  // of options.device; null: this CPU
  SignalInbox* signals = nullptr;  // null: signals act as the system does
  std::vector<machine::MemoryLimit> memory =
      {};  // of this rank's host; empty: whatever is asked for
  // Absent: asked of the libraries of this process.
  std::optional<Arithmetic> arithmetic = std::nullopt;
};

}  // namespace fm::engine
