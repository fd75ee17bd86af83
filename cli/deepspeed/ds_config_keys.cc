#include "cli/deepspeed/ds_config_keys.h"

#include <algorithm>

#include "core/check.h"
#include "core/text.h"

namespace fm::cli {
namespace {

constexpr DeprecatedKey kDeprecated[] = {
    {"zero_optimization.stage3_gather_fp16_weights_on_model_save",
     "zero_optimization.gather_16bit_weights_on_model_save"},
    {"zero_optimization.cpu_offload", "zero_optimization.offload_optimizer"},
    {"zero_optimization.cpu_offload_param", "zero_optimization.offload_param"},
    {"bfloat16", "bf16"},
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

struct SplitPath {
  std::string_view parent;  // "" at the top level
  std::string_view name;
};

SplitPath split_path(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  if (dot == std::string_view::npos) return {"", path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

// Whether `names` ("group|team") holds `name`.
bool holds(std::string_view names, std::string_view name) {
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find('|', begin), names.size());
    if (names.substr(begin, end - begin) == name) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

const std::vector<KeyRow>& ds_config_keys() {
  static const std::vector<KeyRow> kRows = join_parts();
  return kRows;
}

std::span<const DeprecatedKey> deprecated_keys() { return kDeprecated; }

const KeyRow* find_key(std::string_view path) {
  const auto [parent, name] = split_path(path);
  for (const KeyRow& row : ds_config_keys()) {
    const auto [block, names] = split_path(row.path);
    if (block == parent && holds(names, name)) return &row;
  }
  return nullptr;
}

std::vector<std::string> keys_below(std::string_view block) {
  std::vector<std::string> names;
  for (const KeyRow& row : ds_config_keys()) {
    const auto [parent, these] = split_path(row.path);
    if (parent != block) continue;
    for (const std::string& name : core::split(these, '|')) names.push_back(name);
  }
  return names;
}

std::optional<std::string> block_of(std::string_view name) {
  std::optional<std::string> found;
  for (const KeyRow& row : ds_config_keys()) {
    const auto [parent, names] = split_path(row.path);
    if (!holds(names, name)) continue;
    if (found) return std::nullopt;
    found = parent;
  }
  return found;
}

std::string path_of_flag(std::string_view name) {
  std::string found;
  for (const KeyRow& row : ds_config_keys()) {
    const auto [parent, names] = split_path(row.path);
    if (!holds(names, name)) continue;
    std::string path = core::concat(parent, parent.empty() ? "" : ".", name);
    if (row.verdict == Verdict::kHonoured) return path;
    if (found.empty()) found = path;
  }
  return found;
}

}  // namespace fm::cli
