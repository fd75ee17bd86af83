#include "cli/peft_folder.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/files/files.h"
#include "core/text.h"

namespace fm::cli {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kConfig = "adapter_config.json";

// Keys of adapter_config.json whose other values mean adapters of another kind.
bool is_plain(const Json& config, const char* key, const Json& plain) {
  const auto at = config.find(key);
  return at == config.end() || at->is_null() || *at == plain || at->empty();
}

void check_kind(const Json& config, const std::string& path) {
  FM_USER_CHECK(config.value("peft_type", "") == "LORA", path,
                ": \"peft_type\" must be \"LORA\"; use adapters of that kind");
  const std::pair<const char*, Json> plain[] = {{"bias", "none"},
                                                {"use_dora", false},
                                                {"lora_bias", false},
                                                {"rank_pattern", {}},
                                                {"alpha_pattern", {}},
                                                {"layers_to_transform", nullptr},
                                                {"layers_pattern", {}},
                                                {"exclude_modules", {}},
                                                {"target_parameters", {}},
                                                {"layer_replication", {}},
                                                {"alora_invocation_tokens", {}},
                                                {"use_qalora", false},
                                                {"use_bdlora", {}},
                                                {"velora_config", {}},
                                                {"monteclora_config", {}},
                                                {"kasa_config", {}},
                                                {"arrow_config", {}}};
  for (const auto& [key, value] : plain) {
    FM_USER_CHECK(is_plain(config, key, value), path, ": \"", key, "\" must be ", value.dump(),
                  "; adapters of another kind are not supported (", config[key].dump(), ")");
  }
}

// peft takes these apart from the base as it loads them (pissa, olora, corda, loftq, ...): what is
// left there is another base. Those named here leave it as it is.
void check_start(const Json& config, const std::string& path) {
  const Json start = config.value("init_lora_weights", Json(true));
  const bool plain =
      !start.is_string() || start == "gaussian" || start == "eva" || start == "orthogonal";
  FM_USER_CHECK(plain, path,
                ": \"init_lora_weights\" must leave the base model as it is; save the ",
                "adapter for that base, with path_initial_model_for_weight_conversion of peft's ",
                "save_pretrained (", start.dump(), ")");
}

// {"embed_tokens": [400, 401], "lm_head": [400, 401]}; a list is of the embedding alone.
void read_token_rows(const Json& config, const std::string& path, engine::LoraOptions& lora) {
  const Json rows = config.value("trainable_token_indices", Json());
  if (rows.is_null() || rows.empty()) return;
  if (rows.is_array()) {
    lora.token_modules = {"embed_tokens", "wte", "embed_in", "word_embeddings"};
    lora.token_rows = rows.get<std::vector<std::int64_t>>();
  } else {
    for (const auto& [module, ids] : rows.items()) {
      lora.token_modules.push_back(module);
      FM_USER_CHECK(ids == rows.front(), path, ": \"trainable_token_indices\" must name the same ",
                    "ids for each module; adapters with other ones are not supported (",
                    rows.dump(), ")");
    }
    lora.token_rows = rows.front().get<std::vector<std::int64_t>>();
  }
  FM_USER_CHECK(!lora.token_rows.empty() && std::ranges::is_sorted(lora.token_rows), path,
                ": \"trainable_token_indices\" must be ids in ascending order; train the adapter "
                "with such a list, as another order of this one would exchange rows (",
                rows.dump(), ")");
}

engine::LoraOptions options_of(const Json& config, const std::string& path) {
  check_kind(config, path);
  check_start(config, path);
  engine::LoraOptions lora;
  FM_USER_CHECK(config.value("r", Json(8)).is_number_integer(), path,
                ": \"r\" must be a whole number; correct it");
  lora.r = config.value("r", std::int64_t{8});
  lora.alpha = config.value("lora_alpha", 8.0);
  lora.dropout = config.value("lora_dropout", 0.0);
  lora.rslora = config.value("use_rslora", false);
  const Json targets = config.value("target_modules", Json());
  if (targets.is_array()) lora.targets = targets.get<std::vector<std::string>>();
  FM_USER_CHECK(!targets.is_string() || targets == "all-linear", path,
                ": \"target_modules\" must be a list of names; write it as one (", targets.dump(),
                ")");
  if (targets.is_string()) lora.targets = {targets.get<std::string>()};
  const Json saved = config.value("modules_to_save", Json());
  if (saved.is_array()) lora.modules_to_save = saved.get<std::vector<std::string>>();
  read_token_rows(config, path, lora);
  return lora;
}

Json read_adapter_config(const fs::path& path) {
  const core::SmallFile file = core::read_small_file(path, core::kMostConfig);
  FM_DATA_CHECK(file.problem.empty(), path.string(),
                ": a PEFT folder has this file; name such a folder (", file.problem, ")");
  FM_DATA_CHECK(core::is_shallow(file.text), path.string(), ": at most ", core::kMostBrackets,
                " levels of brackets are possible; get the file again");
  Json config = Json::parse(file.text, nullptr, false);
  FM_DATA_CHECK(config.is_object(), path.string(), ": a JSON object is required; get it again");
  return config;
}

}  // namespace

void check_lora(const engine::LoraOptions& lora, const std::string& where) {
  FM_USER_CHECK(lora.r >= 1 && lora.r <= kMostLoraRank, where,
                ": the rank of adapters must be from 1 to ", kMostLoraRank,
                "; correct it (r=", lora.r, ")");
  FM_USER_CHECK(lora.alpha > 0.0, where, ": lora_alpha must be greater than 0; correct it (",
                lora.alpha, ")");
  FM_USER_CHECK(lora.dropout >= 0.0 && lora.dropout < 1.0, where,
                ": lora_dropout must be at least 0 and below 1; correct it (", lora.dropout, ")");
}

engine::LoraOptions read_adapter(const std::string& folder) {
  const fs::path path = fs::path(folder) / kConfig;
  try {
    engine::LoraOptions lora = options_of(read_adapter_config(path), path.string());
    lora.start = folder;
    check_lora(lora, path.string());
    return lora;
  } catch (const Json::exception& error) {
    FM_DATA_CHECK(false, path.string(), ": a value has another type than peft writes; get the file",
                  " again (", error.what(), ")");
  }
}

std::string split_adapter(std::string& model_folder, const std::string& adapter, const char* flag) {
  const fs::path folder = model_folder;
  std::error_code ignored;
  if (!fs::exists(folder / kConfig, ignored) || fs::exists(folder / "config.json", ignored)) {
    return adapter;
  }
  const fs::path other = adapter;
  const bool swapped = !adapter.empty() && !fs::exists(other / kConfig, ignored) &&
                       fs::exists(other / "config.json", ignored);
  FM_USER_CHECK(!swapped, flag, " names a PEFT folder and --adapter a model; swap them: ", flag,
                " ", adapter, " --adapter ", model_folder);
  const Json config = read_adapter_config(folder / kConfig);
  const Json base = config.value("base_model_name_or_path", Json());
  FM_USER_CHECK(base.is_string() && fs::is_directory(base.get<std::string>(), ignored),
                "the adapter's base model must be a folder here; name it with ", flag,
                ", and the adapter with --adapter (", (folder / kConfig).string(),
                ": base_model_name_or_path=", base.dump(), ")");
  FM_USER_CHECK(adapter.empty(), "--adapter and ", flag,
                " name a PEFT folder both; leave out one (", adapter, ", ", model_folder, ")");
  model_folder = base.get<std::string>();
  return folder.string();
}

}  // namespace fm::cli
