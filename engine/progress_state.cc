#include "engine/progress_state.h"

#include <nlohmann/json.hpp>

#include "core/check.h"

namespace fm::engine {

std::string to_json(const ProgressState& state) {
  const nlohmann::json json = {{"step", state.step},
                               {"samples", state.samples},
                               {"applied", state.applied},
                               {"skipped", state.skipped},
                               {"consecutive_skips", state.consecutive_skips},
                               {"seed", state.seed},
                               {"data", state.data},
                               {"optimizer", state.optimizer},
                               {"arithmetic", state.arithmetic}};
  return json.dump(2) + "\n";
}

ProgressState progress_from_json(const std::string& text) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    ProgressState state;
    state.step = json.at("step");
    state.samples = json.at("samples");
    state.applied = json.at("applied");
    state.skipped = json.at("skipped");
    state.consecutive_skips = json.at("consecutive_skips");
    state.seed = json.at("seed");
    state.data = json.at("data");
    state.optimizer = json.at("optimizer");
    state.arithmetic = json.at("arithmetic");
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw core::MachineError(
        core::ExitCode::kNoCheckpoint,
        core::concat("state.json of the checkpoint must hold the run's progress; resume from "
                     "another checkpoint with --resume PATH (",
                     error.what(), ")"));
  }
}

}  // namespace fm::engine
