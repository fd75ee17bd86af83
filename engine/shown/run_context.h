// What only the program that was started knows.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/output_fence.h"
#include "core/blackbox/black_box.h"
#include "core/step_pace.h"
#include "engine/shown/grace.h"
#include "engine/state/run_identity.h"
#include "engine/step/rank_device.h"
#include "machine/limits.h"

namespace fm::engine {

class SignalInbox;  // engine/run/signals.h

struct RunContext {
  std::string launch_decision;             // how ranks were found, one line
  std::string machine;                     // CPU and libraries, one line for the banner
  bool terminal = false;                   // stdout is a terminal: a live line instead of many
  std::function<int()> columns = nullptr;  // of the terminal, now; null: kFileColumns
  std::string programs = "";  // how its user calls them: this, then "fmengine-generate"
  std::string version = "";
  RankDevice computes = {};        // of options.device
  double peak_flops = 0.0;         // per second, of all devices' data sheets; 0: not known
  core::BlackBox* box = nullptr;   // of this rank; null: nothing is recorded
  SignalInbox* signals = nullptr;  // null: signals act as the system does
  std::optional<Grace> grace = std::nullopt;  // absent: nothing ends a save behind SIGTERM
  checkpoint::OutputFence fence = {};         // armed when rank 0 holds the output directory
  core::StepPace* pace = nullptr;             // told of steps, for the watch; may be null
  // Told of an error of this rank while everything still stands: what is destroyed on its way to
  // the caller may block. May be null.
  std::function<void()> on_error = nullptr;
  std::vector<machine::MemoryLimit> memory =
      {};  // of this rank's host; empty: whatever is asked for
  // Absent: asked of the libraries of this process.
  std::optional<Arithmetic> arithmetic = std::nullopt;
};

}  // namespace fm::engine
