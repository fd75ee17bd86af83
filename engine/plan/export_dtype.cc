#include "engine/plan/export_dtype.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/hf_folder.h"
#include "core/check.h"
#include "core/text.h"
#include "engine/plan/run_model.h"

namespace fm::engine {

using core::DType;

std::optional<DType> export_dtype_named(std::string_view text) {
  std::string name = core::lower(text);
  if (name.starts_with("torch.")) name.erase(0, 6);
  constexpr std::pair<std::string_view, DType> kNames[] = {
      {"fp32", DType::kF32}, {"float32", DType::kF32}, {"float", DType::kF32},
      {"f32", DType::kF32},  {"bf16", DType::kBF16},   {"bfloat16", DType::kBF16},
      {"fp16", DType::kF16}, {"float16", DType::kF16}, {"half", DType::kF16},
      {"f16", DType::kF16}};
  for (const auto& [known, dtype] : kNames) {
    if (known == name) return dtype;
  }
  return std::nullopt;
}

InitDType dtype_as_init(const std::string& config_json, const std::string& weights_from) {
  const auto config = nlohmann::json::parse(config_json);
  std::string said = "no dtype";
  for (const char* key : {"dtype", "torch_dtype"}) {
    const auto value = config.find(key);
    if (value == config.end() || value->is_null()) continue;
    said = core::concat('"', key, "\": ", value->dump());
    if (*value == "auto") break;
    return {value->is_string() ? export_dtype_named(value->get<std::string>()) : std::nullopt,
            said};
  }
  if (weights_from.empty()) return {DType::kF32, said};
  if (!std::filesystem::exists(weights_from)) {
    return {std::nullopt, core::concat(said, "; ", weights_from, " is gone"), true};
  }
  const std::string stored = checkpoint::HfFolder(weights_from).stored_type();
  return {export_dtype_named(stored), core::concat(said, "; ", stored, " in ", weights_from)};
}

DType export_dtype_of(const TrainOptions& options, const model::ModelFacts& facts) {
  if (options.export_dtype) return *options.export_dtype;
  const std::string weights = weights_folder(options).string();
  if (weights.empty()) return DType::kF32;
  return dtype_as_init(facts.config_json, weights).dtype.value_or(DType::kF32);
}

}  // namespace fm::engine
