#include "engine/state/progress_state.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/text.h"

namespace fm::engine {

BestEvaluation after_evaluation(BestEvaluation best, std::int64_t step, double loss,
                                double threshold) {
  const bool finite = std::isfinite(loss);
  const bool enough = finite && (best.step < 0 || loss < best.loss - threshold);
  if (finite && (best.step < 0 || loss < best.loss)) {
    best.step = step;
    best.loss = loss;
  }
  best.worse = enough ? 0 : best.worse + 1;
  return best;
}

std::string to_json(const ProgressState& state) {
  nlohmann::json json = {{"step", state.step},
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
  if (!state.exports.config_json.empty()) {
    json["export"] = {{"config_json", state.exports.config_json},
                      {"tokenizer_from", state.exports.tokenizer_from},
                      {"byte_tokenizer", state.exports.byte_tokenizer},
                      {"chat_template", state.exports.chat_template},
                      {"weights_from", state.exports.weights_from}};
    if (!state.exports.carried.empty()) {
      json["export"]["stored_prefixes"] = state.exports.stored_prefixes;
      json["export"]["carried"] = state.exports.carried;
    }
    if (!state.exports.add_tokens.empty()) json["export"]["add_tokens"] = state.exports.add_tokens;
    if (!state.exports.eos_token.empty()) json["export"]["eos_token"] = state.exports.eos_token;
    if (!state.exports.start.empty()) {
      json["export"]["start"] = nlohmann::json::parse(state.exports.start);
    }
  }
  if (state.best.step >= 0 || state.best.worse > 0) {
    json["best_evaluation"] = {
        {"step", state.best.step}, {"loss", state.best.loss}, {"worse", state.best.worse}};
  }
  if (state.loss_scale) {
    const optim::LossScaleState& at = *state.loss_scale;
    json["loss_scale"] = {{"scale", at.scale},
                          {"steps", at.steps},
                          {"last_overflow", at.last_overflow},
                          {"hysteresis", at.hysteresis}};
  }
  return json.dump(2) + "\n";
}

ProgressState progress_from_json(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(core::is_shallow(text) ? text : "");
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
    if (json.contains("export")) {
      const nlohmann::json& exports = json["export"];
      state.exports = {.config_json = exports.at("config_json"),
                       .tokenizer_from = exports.at("tokenizer_from"),
                       .byte_tokenizer = exports.at("byte_tokenizer")};
      state.exports.chat_template = exports.value("chat_template", "");
      state.exports.weights_from = exports.value("weights_from", "");
      state.exports.stored_prefixes =
          exports.value("stored_prefixes", state.exports.stored_prefixes);
      state.exports.carried = exports.value("carried", state.exports.carried);
      state.exports.add_tokens = exports.value("add_tokens", std::vector<std::string>());
      state.exports.eos_token = exports.value("eos_token", "");
      if (exports.contains("start")) state.exports.start = exports["start"].dump();
    }
    if (json.contains("best_evaluation")) {
      const nlohmann::json& best = json["best_evaluation"];
      state.best = {.step = best.at("step"), .loss = best.at("loss"), .worse = best.at("worse")};
    }
    if (json.contains("loss_scale")) {
      const nlohmann::json& at = json["loss_scale"];
      state.loss_scale = {.scale = at.at("scale"),
                          .steps = at.at("steps"),
                          .last_overflow = at.at("last_overflow"),
                          .hysteresis = at.at("hysteresis")};
    }
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
