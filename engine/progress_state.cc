#include "engine/progress_state.h"

#include <nlohmann/json.hpp>

#include "core/check.h"

namespace fm::engine {

std::string to_json(const ProgressState& state) {
  const nlohmann::json json = {{"step", state.step},
                               {"samples", state.samples},
                               {"applied", state.applied},
                               {"skipped", state.skipped},
                               {"spared", state.spared},
                               {"seed", state.run.seed},
                               {"data", state.run.data},
                               {"optimizer", state.run.optimizer},
                               {"arithmetic", state.run.arithmetic},
                               {"model", nlohmann::json::parse(state.run.model)},
                               {"optimization", nlohmann::json::parse(state.run.optimization)}};
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
    state.run.seed = json.at("seed");
    state.run.data = json.at("data");
    state.run.optimizer = json.at("optimizer");
    state.run.arithmetic = json.at("arithmetic");
    // States of older builds lack these.
    if (json.contains("spared")) state.spared = json["spared"].get<std::vector<std::int64_t>>();
    if (json.contains("model")) state.run.model = json["model"].dump();
    if (json.contains("optimization")) state.run.optimization = json["optimization"].dump();
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
