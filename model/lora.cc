#include "model/lora.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/philox.h"
#include "core/text.h"

namespace fm::model {
namespace {

constexpr const char* kFirst = ".lora_A.weight";
constexpr const char* kSecond = ".lora_B.weight";

// Modules of a block, without what stands before them.
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

std::string last_part(const std::string& module) { return module.substr(module.rfind('.') + 1); }

}  // namespace

std::string adapter_name(const std::string& module, LoraFactor factor) {
  return core::concat(kPeftPrefix, module, factor == LoraFactor::kA ? kFirst : kSecond);
}

bool is_adapter(const std::string& name) {
  return name.ends_with(kFirst) || name.ends_with(kSecond);
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
  for (const std::string& target : targets) {
    const bool there = std::ranges::any_of(modules, [&](const std::string& module) {
      return is_one_of(core::concat(config.names.layers, ".", module), {target});
    });
    FM_USER_CHECK(there,
                  "targets of adapters (--lora_target_modules, or target_modules of a PEFT folder) "
                  "must name linear layers of the blocks; use some of ",
                  core::join(all, ", "), ", or ", kAllLinear, " (", target, ")");
  }
  return targets;
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
