#include "cli/ds_config_keys.h"

#include <algorithm>

namespace fm::cli {
namespace {

constexpr DeprecatedKey kDeprecated[] = {
    {"zero_optimization.stage3_gather_fp16_weights_on_model_save",
     "zero_optimization.gather_16bit_weights_on_model_save"},
    {"zero_optimization.cpu_offload", "zero_optimization.offload_optimizer"},
    {"zero_optimization.cpu_offload_param", "zero_optimization.offload_param"},
    {"bfloat16", "bf16"},
};

// Flags of Hugging Face's Trainer that have another name in the JSON.
struct TrainerFlag {
  std::string_view name;
  std::string_view path;
};
constexpr TrainerFlag kTrainerFlags[] = {
    {"learning_rate", "optimizer.params.lr"},
    {"max_grad_norm", "gradient_clipping"},
    {"per_device_train_batch_size", "train_micro_batch_size_per_gpu"},
    {"warmup_steps", "scheduler.params.warmup_num_steps"},
};

std::vector<KeyRow> join_parts() {
  std::vector<KeyRow> rows;
  for (const std::span<const KeyRow> part :
       {top_level_keys(), optimizer_keys(), precision_keys(), zero_keys(), monitor_keys(),
        runtime_keys(), tuning_keys()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

std::string_view first_component(std::string_view& path) {
  const std::size_t dot = path.find('.');
  const std::string_view component = path.substr(0, dot);
  path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  return component;
}

struct SplitPath {
  std::string_view parent;  // "" at the top level
  std::string_view name;
};

SplitPath split_path(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  if (dot == std::string_view::npos) return {"", path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

bool matches(std::string_view pattern, std::string_view path) {
  while (!pattern.empty() && !path.empty()) {
    const std::string_view wanted = first_component(pattern);
    const std::string_view name = first_component(path);
    if (wanted != "*" && wanted != name) return false;
  }
  return pattern.empty() && path.empty();
}

}  // namespace

const std::vector<KeyRow>& ds_config_keys() {
  static const std::vector<KeyRow> kRows = join_parts();
  return kRows;
}

std::span<const DeprecatedKey> deprecated_keys() { return kDeprecated; }

const KeyRow* find_key(std::string_view path) {
  const std::vector<KeyRow>& rows = ds_config_keys();
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [&](const KeyRow& each) { return matches(each.path, path); });
  return row == rows.end() ? nullptr : &*row;
}

std::vector<std::string> keys_below(std::string_view block) {
  std::vector<std::string> names;
  for (const KeyRow& row : ds_config_keys()) {
    const auto [parent, name] = split_path(row.path);
    if (name != "*" && matches(parent, block)) names.emplace_back(name);
  }
  return names;
}

std::optional<std::string> block_of(std::string_view name) {
  std::optional<std::string> found;
  for (const KeyRow& row : ds_config_keys()) {
    const auto [parent, last] = split_path(row.path);
    if (last != name) continue;
    if (found) return std::nullopt;
    found = parent;
  }
  return found;
}

std::string path_of_flag(std::string_view name) {
  for (const TrainerFlag& flag : kTrainerFlags) {
    if (flag.name == name) return std::string(flag.path);
  }
  std::string found;
  for (const KeyRow& row : ds_config_keys()) {
    if (split_path(row.path).name != name) continue;
    if (row.verdict == Verdict::kHonoured) return std::string(row.path);
    if (found.empty()) found = row.path;
  }
  return found;
}

}  // namespace fm::cli
