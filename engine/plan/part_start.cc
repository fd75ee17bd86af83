#include "engine/plan/part_start.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/text.h"

namespace fm::engine {
namespace {

using nlohmann::json;

// Where a relative path leads when another process asks.
std::string whole_path(const std::string& path) {
  return path.empty() ? "" : std::filesystem::absolute(path).string();
}

core::DType dtype_named(const std::string& name) {
  for (const core::DType dtype : {core::DType::kBF16, core::DType::kF16}) {
    if (name == core::name_of(dtype)) return dtype;
  }
  return core::DType::kF32;
}

}  // namespace

std::string start_of_part(const TrainOptions& options) {
  const LoraOptions& lora = options.lora;
  if (options.train.empty() && options.freeze.empty() && lora.r == 0) return "";
  json start = {{"init_ckpt", whole_path(options.init_ckpt)},
                {"model_config", whole_path(options.model_config)},
                {"pretrain", options.pretrain},
                {"seed", options.seed},
                {"element", core::name_of(options.element)},
                {"train", options.train},
                {"freeze", options.freeze}};
  if (!options.add_tokens.empty() || !options.eos_token.empty()) {
    start["tokens"] = {{"tokenizer", whole_path(options.tokenizer)},
                       {"add", options.add_tokens},
                       {"eos", options.eos_token}};
  }
  if (lora.r > 0) {
    start["lora"] = {{"r", lora.r},
                     {"alpha", lora.alpha},
                     {"dropout", lora.dropout},
                     {"rslora", lora.rslora},
                     {"targets", lora.targets},
                     {"modules_to_save", lora.modules_to_save},
                     {"token_rows", lora.token_rows},
                     {"token_modules", lora.token_modules}};
  }
  return start.dump();
}

TrainOptions options_of_start(const std::string& text) {
  try {
    const json start = json::parse(core::is_shallow(text) ? text : "");
    TrainOptions options;
    options.init_ckpt = start.at("init_ckpt");
    options.model_config = start.at("model_config");
    options.pretrain = start.at("pretrain");
    options.seed = start.at("seed");
    options.element = dtype_named(start.at("element"));
    options.train = start.at("train");
    options.freeze = start.at("freeze");
    options.max_seq_len = 1;  // nothing is read
    options.batch = {1, 1, 1};
    if (start.contains("tokens")) {
      const json& tokens = start["tokens"];
      options.tokenizer = tokens.at("tokenizer");
      options.add_tokens = tokens.at("add").get<std::vector<std::string>>();
      options.eos_token = tokens.at("eos");
    }
    if (!start.contains("lora")) return options;
    const json& lora = start["lora"];
    options.lora = {.r = lora.at("r"),
                    .alpha = lora.at("alpha"),
                    .dropout = lora.at("dropout"),
                    .rslora = lora.at("rslora"),
                    .targets = lora.at("targets").get<std::vector<std::string>>(),
                    .modules_to_save = lora.at("modules_to_save").get<std::vector<std::string>>(),
                    .token_rows = lora.value("token_rows", std::vector<std::int64_t>()),
                    .token_modules = lora.value("token_modules", std::vector<std::string>()),
                    .start = ""};
    return options;
  } catch (const json::exception& error) {
    throw core::MachineError(
        core::ExitCode::kNoCheckpoint,
        core::concat("state.json of the checkpoint must say how the run began; start the run's "
                     "command again, which exports (",
                     error.what(), ")"));
  }
}

}  // namespace fm::engine
