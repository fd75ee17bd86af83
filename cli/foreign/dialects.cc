#include "cli/foreign/dialects.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "cli/deepspeed/hjson.h"
#include "cli/deepspeed/value_types.h"
#include "core/check.h"
#include "core/files/files.h"
#include "core/text.h"

namespace fm::cli {
namespace {

using core::concat;
using core::JsonTree;

bool has(const JsonTree& root, const char* key) { return root.member(key) != nullptr; }

std::string number_text(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.17g", number);
  return text;
}

// "4 per epoch" as a share of all steps; once in all is the end, which comes in any case.
void per_epoch(const char* key, const char* steps, double epochs, Settings& settings) {
  const Setting* const setting = settings.find(key);
  if (setting == nullptr) return;
  const double share = 1.0 / (core::number_of(setting->values[0]).value_or(1.0) * epochs);
  settings.set(steps, share > 0.0 && share < 1.0 ? number_text(share) : "0", setting->line);
  settings.drop(key);
}

void prepare_axolotl(Settings& settings) {
  settings.defaults = {"--max_seq_len=512", "--lr_scheduler_type=cosine", "--packing=none",
                       "--per_device_train_batch_size=1", "--num_train_epochs=1"};
  if (settings.find("warmup_steps") == nullptr) settings.defaults.push_back("--warmup_ratio=0.03");
  const double epochs = settings.number("num_train_epochs", "num_epochs", 1.0);
  const auto& said = settings.said;
  const bool evaluates = said.contains("eval_data_path") || said.contains("split") ||
                         settings.find("test_datasets[].path") != nullptr ||
                         settings.number("validation_split", "val_set_size", 0.0) > 0.0;
  if (evaluates) {
    per_epoch("evals_per_epoch", "eval_steps", epochs, settings);
  } else {
    settings.drop("eval_steps");
  }
  per_epoch("saves_per_epoch", "save_steps", epochs, settings);
  if (settings.find("adapter") == nullptr) settings.drop_all("lora_");
  if (settings.text("adapter") == "lora") settings.drop("adapter");  // what it says is done
  if (parse_bool(settings.text("lora_target_linear")).value_or(false)) {
    settings.drop("lora_target_modules");  // all linear layers are these, too
  }
  // Then the path names a format.
  if (settings.find("datasets[].data_files") != nullptr) settings.drop("datasets[].path");
}

// Files of LLaMA-Factory name data by dataset_info.json.
class DataFiles {
 public:
  explicit DataFiles(Settings& settings) : settings_(settings) {
    const std::string named = settings.text("dataset_dir");
    folder_ = named.empty() ? "data" : named;
  }

  void replace(const char* key, const char* ours) {
    const Setting* const found = settings_.find(key);
    if (found == nullptr) return;
    const Setting setting = *found;
    std::vector<std::string> files;
    for (const std::string& value : setting.values) {
      for (std::string name : core::split(value, ',')) {
        std::erase(name, ' ');
        files.push_back(file_of(name, setting));
      }
    }
    settings_.drop(key);
    std::erase(files, "");
    if (!files.empty()) settings_.rows.push_back({ours, files, setting.line});
  }

 private:
  std::string refuse(const std::string& name, const Setting& setting, const std::string& why) {
    settings_.problems.push_back(concat(setting.line, ": ", setting.key, " ", name, ": ", why));
    return "";
  }

  std::string file_of(const std::string& name, const Setting& setting) {
    const std::string list = folder_ + "/dataset_info.json";
    if (!info_) {
      const core::SmallFile file = core::read_small_file(list, core::kMostConfig);
      if (!file.problem.empty()) {
        return refuse(name, setting, concat(list, " is not there; name the data with --data_path"));
      }
      info_ = parse_hjson(file.text, list);
    }
    const JsonTree* const entry = info_->member(name);
    if (entry == nullptr) return refuse(name, setting, concat(list, " has no such entry"));
    const JsonTree* const file = entry->member("file_name");
    const JsonTree* const form = entry->member("formatting");
    if (file == nullptr) {
      return refuse(name, setting, "nothing is downloaded; name a file of it with --data_path");
    }
    if (form == nullptr || form->text == "alpaca") {
      return refuse(name, setting,
                    "LLaMA-Factory makes conversations of instruction, input and output; write "
                    "rows of messages, or give --data_path to train on Stanford Alpaca's words");
    }
    return renamed(*entry) ? refuse(name, setting,
                                    "its columns or tags have names of their own; "
                                    "give --data_path FILE with --columns")
                           : (std::filesystem::path(folder_) / file->text).string();
  }

  // Whether columns and tags have other names than rows of chats have.
  static bool renamed(const JsonTree& entry) {
    const std::vector<std::string> usual = {"conversations", "messages",    "system",  "tools",
                                            "role",          "from",        "content", "value",
                                            "user",          "assistant",   "human",   "gpt",
                                            "function_call", "observation", "tool"};
    for (const char* block : {"columns", "tags"}) {
      const JsonTree* const names = entry.member(block);
      if (names == nullptr) continue;
      for (const JsonTree::Member& each : names->members) {
        if (std::ranges::find(usual, each.value.text) == usual.end()) return true;
      }
    }
    return false;
  }

  Settings& settings_;
  std::string folder_;
  std::optional<JsonTree> info_;
};

void prepare_factory(Settings& settings) {
  const bool from_text = settings.text("stage") == "pt";
  settings.defaults = {"--max_seq_len=2048", "--num_train_epochs=3",
                       from_text ? "--packing=concat" : "--packing=none"};
  const std::string kind = settings.text("finetuning_type");
  if (kind.empty() || kind == "lora") {
    const double rank = settings.number("lora_r", "lora_rank", 8.0);
    settings.defaults.insert(settings.defaults.end(),
                             {"--lora_r=8", "--lora_target_modules=all-linear",
                              concat("--lora_alpha=", number_text(2.0 * rank))});
  } else {
    settings.drop_all("lora_");
  }
  if (kind == "full" || kind == "lora") settings.drop("finetuning_type");  // what it says is done
  if (from_text || settings.text("stage") == "sft") settings.drop("stage");
  if (settings.said.contains("data_path")) return;
  DataFiles files(settings);
  files.replace("dataset", "data_path");
  files.replace("eval_dataset", "eval_data_path");
  settings.drop("dataset_dir");
}

}  // namespace

const Setting* Settings::find(const std::string& key) const {
  const auto found = std::ranges::find(rows, key, &Setting::key);
  return found == rows.end() || found->values.empty() ? nullptr : &*found;
}

std::string Settings::text(const std::string& key) const {
  const Setting* const setting = find(key);
  return setting == nullptr ? "" : core::join(setting->values, ",");
}

double Settings::number(const std::string& flag, const std::string& key, double otherwise) const {
  const auto found = said.find(flag);
  return core::number_of(found == said.end() ? text(key) : found->second).value_or(otherwise);
}

void Settings::set(const std::string& key, const std::string& value, int line) {
  drop(key);
  rows.push_back({key, {value}, line});
}

void Settings::drop(const std::string& key) {
  std::erase_if(rows, [&](const Setting& each) { return each.key == key; });
}

void Settings::drop_all(const std::string& start) {
  std::erase_if(rows, [&](const Setting& each) { return each.key.starts_with(start); });
}

Dialect dialect_of(const JsonTree& root) {
  const bool axolotl =
      has(root, "base_model") || (has(root, "micro_batch_size") && has(root, "sequence_len"));
  if (axolotl) return Dialect::kAxolotl;
  const bool factory = has(root, "finetuning_type") ||
                       (has(root, "stage") && (has(root, "template") || has(root, "cutoff_len")));
  return factory ? Dialect::kFactory : Dialect::kTrainer;
}

void prepare(Dialect dialect, Settings& settings) {
  switch (dialect) {
    case Dialect::kTrainer: return;
    case Dialect::kAxolotl: return prepare_axolotl(settings);
    case Dialect::kFactory: return prepare_factory(settings);
  }
}

}  // namespace fm::cli
