#include "model/units/lora.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/check.h"
#include "core/philox.h"
#include "core/text.h"

namespace fm::model {
namespace {

constexpr const char* kFirst = ".lora_A.weight";
constexpr const char* kSecond = ".lora_B.weight";

// The modules of a block, without their prefix.
std::vector<std::string> linear_modules(const DecoderConfig& config) {
  const ModuleNames& names = config.names;
  std::vector<std::string> modules = {names.q, names.out, names.up, names.down};
  if (config.block.qkv == QkvMatrix::kThree) {
    modules.push_back(names.k);
    modules.push_back(names.v);
  }
  if (config.block.gate_up_stacked) std::erase(modules, names.up);
  if (config.block.gated) modules.push_back(names.gate);
  return modules;
}

// The modules that targets name in full, "model.layers.0.mlp.up_proj" or a suffix with the number:
// peft expands "all-linear" so where a model has few matrices. Every layer must be named, because
// all layers have the same adapters here.
class FullNames {
 public:
  explicit FullNames(const DecoderConfig& config) : config_(config) {
    const std::vector<std::string> modules = linear_modules(config);
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
      for (const std::string& module : modules) {
        names_.push_back({name(layer, module), module, layer});
      }
    }
  }

  // False if `target` is no such name.
  bool add(const std::string& target) {
    const std::string end = "." + target;
    bool found = false;
    for (const Name& each : names_) {
      if (each.full != target && !each.full.ends_with(end)) continue;
      layers_of_[each.module].insert(each.layer);
      found = true;
    }
    return found;
  }

  // The modules that all layers have, without those that `ends` already name.
  std::vector<std::string> of_all_layers(const std::vector<std::string>& ends) const {
    std::vector<std::string> modules;
    for (const auto& [module, layers] : layers_of_) {
      if (is_one_of(module, ends)) continue;
      const auto named = static_cast<std::int64_t>(layers.size());
      std::int64_t missing = 0;
      while (layers.contains(missing)) ++missing;
      FM_USER_CHECK(named == config_.layers,
                    "all layers must have the same adapters; name the module of every layer, or ",
                    module, " alone for all of them (", named, " of ", config_.layers,
                    " layers are named, ", name(missing, module), " is not)");
      modules.push_back(module);
    }
    return modules;
  }

 private:
  struct Name {
    std::string full;
    std::string module;
    std::int64_t layer;
  };

  std::string name(std::int64_t layer, const std::string& module) const {
    return core::concat(config_.names.base, config_.names.layers, ".", layer, ".", module);
  }

  const DecoderConfig& config_;
  std::vector<Name> names_;
  std::map<std::string, std::set<std::int64_t>> layers_of_;
};

std::string last_part(const std::string& module) { return module.substr(module.rfind('.') + 1); }

}  // namespace

std::string adapter_name(const std::string& module, LoraFactor factor) {
  return core::concat(kPeftPrefix, module, factor == LoraFactor::kA ? kFirst : kSecond);
}

bool is_adapter(const std::string& name) {
  return name.ends_with(kFirst) || name.ends_with(kSecond);
}

std::string adapted_module(const std::string& name) {
  const std::string prefix = kPeftPrefix;
  if (!is_adapter(name) || !name.starts_with(prefix)) return "";
  return name.substr(prefix.size(), name.rfind(".lora_") - prefix.size());
}

bool is_one_of(const std::string& module, const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [&](const std::string& name) {
    return module == name || module.ends_with("." + name);
  });
}

std::vector<std::string> targets_of(const DecoderConfig& config, const LoraChoices& lora) {
  if (lora.rank == 0) return {};
  const std::vector<std::string> modules = linear_modules(config);
  std::vector<std::string> all;
  for (const std::string& module : modules) {
    const std::string name = last_part(module);
    if (std::ranges::find(all, name) == all.end()) all.push_back(name);
  }
  if (lora.targets == std::vector<std::string>{kAllLinear}) return all;
  const std::vector<std::string>& targets =
      lora.targets.empty() ? config.lora_targets : lora.targets;
  FM_USER_CHECK(!targets.empty(), "peft knows no usual targets for ", config.family,
                "; name some of ", core::join(all, ", "), " with --lora_target_modules");
  FullNames full(config);
  std::vector<std::string> ends;
  for (const std::string& target : targets) {
    const bool there = std::ranges::any_of(modules, [&](const std::string& module) {
      return is_one_of(core::concat(config.names.layers, ".", module), {target});
    });
    if (there) ends.push_back(target);
    FM_USER_CHECK(there || full.add(target),
                  "targets of adapters (--lora_target_modules, or target_modules of a PEFT folder) "
                  "must name linear layers of the blocks; use some of ",
                  core::join(all, ", "), ", or ", kAllLinear, " (", target, ")");
  }
  const std::vector<std::string> named = full.of_all_layers(ends);
  ends.insert(ends.end(), named.begin(), named.end());
  return ends;
}

bool has_token_rows(const LoraChoices& lora, const std::string& matrix) {
  if (lora.token_rows.empty()) return false;
  const std::string module = matrix.substr(0, matrix.rfind('.'));
  return lora.token_modules.empty() || is_one_of(module, lora.token_modules);
}

void init_adapter(const core::ParamEntry& entry, std::uint64_t seed, core::Elements first,
                  std::span<float> out) {
  std::ranges::fill(out, 0.0F);
  if (entry.name.ends_with(kSecond)) return;
  const std::uint64_t key = core::stream_key(seed, entry.name);
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(entry.shape[1])));
  auto element = static_cast<std::uint64_t>(first.count());
  for (float& value : out) {
    const core::PhiloxBlock words = core::philox(key, element / 4);
    value = bound * (2.0F * core::uniform_of(words[element % 4]) - 1.0F);
    ++element;
  }
}

}  // namespace fm::model
