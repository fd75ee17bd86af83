#include "cli/flags/config_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/deepspeed/hjson.h"
#include "cli/foreign/dialects.h"
#include "cli/foreign/read_yaml.h"
#include "core/check.h"
#include "core/files/files.h"
#include "core/text.h"

namespace fm::cli {
namespace {

using core::concat;
using core::JsonKind;
using core::JsonTree;

JsonTree read_file(const std::string& path) {
  const bool yaml = path.ends_with(".yaml") || path.ends_with(".yml");
  FM_USER_CHECK(
      yaml || path.ends_with(".json"),
      "--config must be a file of flags that ends with .yaml, .yml or .json; correct it (", path,
      ")");
  const core::SmallFile file = core::read_small_file(path, core::kMostConfig, core::FileKind::kAny);
  FM_USER_CHECK(file.problem.empty(), "--config must be a readable file; check the path (", path,
                ": ", file.problem, ")");
  JsonTree root = yaml ? read_yaml(file.text, path) : parse_hjson(file.text, path);
  FM_USER_CHECK(root.is_object(), path, ": names of flags with their values are required, as ",
                "learning_rate: 2e-5; correct the file");
  return root;
}

nlohmann::json json_of(const JsonTree& value) {
  switch (value.kind) {
    case JsonKind::kNull: return nullptr;
    case JsonKind::kBool: return value.boolean;
    case JsonKind::kNumber: {  // ".5" is a number of YAML alone
      nlohmann::json number = nlohmann::json::parse(value.text, nullptr, false);
      return number.is_discarded() ? nlohmann::json(value.number) : number;
    }
    case JsonKind::kString: return value.text;
    case JsonKind::kArray: {
      nlohmann::json list = nlohmann::json::array();
      for (const JsonTree& item : value.items) list.push_back(json_of(item));
      return list;
    }
    case JsonKind::kObject: {
      nlohmann::json object = nlohmann::json::object();
      for (const JsonTree::Member& each : value.members) object[each.key] = json_of(each.value);
      return object;
    }
  }
  return nullptr;
}

std::string text_of(const JsonTree& value) {
  if (value.kind == JsonKind::kBool && value.text.empty()) return value.boolean ? "true" : "false";
  const bool scalar = value.kind != JsonKind::kArray && value.kind != JsonKind::kObject;
  return scalar ? value.text
                : json_of(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// One run through the file.
class FileReader {
 public:
  FileReader(std::string path, const NormalLine& command_line, std::span<const FlagRow> flags)
      : path_(std::move(path)), command_line_(command_line), flags_(flags) {
    for (const std::string& word : command_line.words) {
      settings_.said[name_of_word(word)] = word.substr(word.find('=') + 1);
    }
  }

  NormalLine read() {
    const JsonTree root = read_file(path_);
    dialect_ = dialect_of(root);
    flatten(root, "");
    prepare(dialect_, settings_);
    for (const std::string& problem : settings_.problems) {
      problems_.push_back(concat(path_, ":", problem));
    }
    for (const Setting& setting : settings_.rows) try_to_take(setting);
    FM_USER_CHECK(problems_.empty(), joined());
    line_.defaults.insert(line_.defaults.end(), settings_.defaults.begin(),
                          settings_.defaults.end());
    say(": no effect here (docs/migration.md says why): ", silent_);
    say(": not counted beside the flags of the command line: ", overruled_);
    return std::move(line_);
  }

 private:
  std::span<const ForeignKey> rows() const {
    switch (dialect_) {
      case Dialect::kTrainer: return {};
      case Dialect::kAxolotl: return axolotl_keys();
      case Dialect::kFactory: return factory_keys();
    }
    return {};
  }

  // The row of the file's program; else ours, so that its files may hold our flags; else that of
  // the Trainer, whose arguments the others pass on.
  const ForeignKey* row_of(const std::string& key) const {
    if (const ForeignKey* row = find_key(rows(), key)) return row;
    return trainer_key(key, find_flag(key, flags_));
  }
  bool is_known(const std::string& key) const {
    return row_of(key) != nullptr || find_flag(key, flags_) != nullptr;
  }
  bool has_parts(const std::string& key) const {
    const auto begins = [&](const ForeignKey& each) {
      return std::ranges::any_of(core::split(each.names, ' '),
                                 [&](const std::string& name) { return name.starts_with(key); });
    };
    return std::ranges::any_of(rows(), begins) || std::ranges::any_of(trainer_keys(), begins);
  }

  void flatten(const JsonTree& object, const std::string& start) {
    for (const JsonTree::Member& member : object.members) {
      std::string key = start + member.key;
      std::ranges::replace(key, '-', '_');
      add(key, member.value);
    }
  }

  void add(const std::string& key, const JsonTree& value) {
    const auto is_object = [](const JsonTree& each) { return each.is_object(); };
    const bool list = value.kind == JsonKind::kArray;
    if (value.is_object() && !is_known(key) && has_parts(key + ".")) {
      return flatten(value, key + ".");
    }
    if (list && std::ranges::any_of(value.items, is_object) && !is_known(key) &&
        has_parts(key + "[].")) {
      for (const JsonTree& item : value.items) flatten(item, key + "[].");
      return;
    }
    Setting setting{.key = key, .values = {}, .line = value.line};
    const bool empty = value.kind == JsonKind::kNull || (list && value.items.empty()) ||
                       (value.is_object() && value.members.empty()) ||
                       (value.kind == JsonKind::kString && value.text.empty());
    if (empty && (has_parts(key + ".") || has_parts(key + "[]."))) return;
    if (list) {
      for (const JsonTree& item : value.items) setting.values.push_back(text_of(item));
    } else if (!empty) {
      setting.values.push_back(text_of(value));
    }
    settings_.rows.push_back(std::move(setting));
  }

  void refuse(const Setting& setting, const std::string& what) {
    problems_.push_back(concat(path_, ":", setting.line, ": ", what));
  }

  void try_to_take(const Setting& setting) {
    try {
      take(setting);
    } catch (const core::UserError& error) {
      refuse(setting, error.what());
    }
  }

  void take(const Setting& setting) {
    if (setting.key == "config") return refuse(setting, "a file of flags names no other one");
    if (command_line_.names.contains(setting.key)) return;
    const ForeignKey* const row = row_of(setting.key);
    const FlagRow* const own = find_flag(setting.key, flags_);
    if (row == nullptr && own == nullptr) {
      return refuse(setting, unknown_name({"key", setting.key, setting.key}, flags_));
    }
    if (setting.values.empty()) return;
    if (row == nullptr) {
      if (is_no_number(*own, setting.values[0])) return;
      return add_values(*own, setting.values, line_.words);
    }
    take_foreign(setting, *row, own);
  }

  void take_foreign(const Setting& setting, const ForeignKey& row, const FlagRow* own) {
    for (const std::string& flag : core::split(row.instead, ' ')) {
      if (settings_.said.contains(flag)) return overruled_.push_back(setting.key);
    }
    const std::string shown = concat(setting.key, ": ", core::join(setting.values, ", "));
    const std::optional<Translated> ours = translate(row, setting.values);
    if (!ours) return refuse(setting, refusal_of(row, shown));
    if (ours->flags.empty() && own != nullptr && row.why.empty()) {
      return add_values(*own, setting.values, line_.words);
    }
    if (ours->is_said) {
      line_.notes.push_back(concat(path_, ":", setting.line, ": ", shown, ": ", row.why));
    } else if (ours->flags.empty()) {
      silent_.push_back(setting.key);
    }
    add_flags(*ours, flags_, line_);
  }

  // One note for all keys that have none.
  void say(const char* what, std::vector<std::string>& keys) {
    std::vector<std::string> once;
    for (const std::string& key : keys) {
      if (std::ranges::find(once, key) == once.end()) once.push_back(key);
    }
    if (!once.empty()) line_.notes.push_back(concat(path_, what, core::join(once, ", ")));
  }

  std::string joined() const {
    if (problems_.size() == 1) return problems_.front();
    return concat(
        problems_.size(), " keys of ", path_, ", a file of ", name_of(dialect_),
        ", cannot be honoured; correct them, or give other values on the command line\n  ",
        core::join(problems_, "\n  "));
  }

  std::string path_;
  const NormalLine& command_line_;
  std::span<const FlagRow> flags_;
  Dialect dialect_ = Dialect::kTrainer;
  Settings settings_;
  NormalLine line_;
  std::vector<std::string> silent_;
  std::vector<std::string> overruled_;
  std::vector<std::string> problems_;
};

// Flags that say one thing together: one of them on the command line takes the place of all in the
// file.
const std::set<std::string>* rivals(const std::string& flag) {
  static const std::set<std::string> kGroups[] = {
      {"init_ckpt", "model_config"},       {"eval_data_path", "split", "validation_split"},
      {"train_steps", "num_train_epochs"}, {"warmup_steps", "warmup_ratio"},
      {"precision", "bf16", "fp16"},       {"packing", "document_attention"}};
  for (const std::set<std::string>& group : kGroups) {
    if (group.contains(flag)) return &group;
  }
  return nullptr;
}

bool is_overruled(const std::string& word, const std::set<std::string>& said) {
  const std::string name = name_of_word(word);
  if (said.contains(name)) return true;
  if (said.contains("adapter") &&
      (name.starts_with("lora_") || name == "use_rslora" || name == "modules_to_save" ||
       name == "trainable_token_indices")) {
    return true;
  }
  if (said.contains("eval_data_path") && name == "shuffle_split") return true;
  const std::set<std::string>* const group = rivals(name);
  return group != nullptr &&
         std::ranges::any_of(*group, [&](const std::string& each) { return said.contains(each); });
}

}  // namespace

NormalLine with_config_file(const std::string& path, NormalLine command_line,
                            std::span<const FlagRow> flags) {
  NormalLine file = FileReader(path, command_line, flags).read();
  std::set<std::string> said;
  for (const std::string& word : command_line.words) said.insert(name_of_word(word));
  std::erase_if(file.words, [&](const std::string& word) { return is_overruled(word, said); });
  // A default of the file's program gives way to all that the file and the command line say.
  for (const std::string& word : command_line.defaults) said.insert(name_of_word(word));
  for (const std::string& word : file.words) said.insert(name_of_word(word));
  std::erase_if(file.defaults, [&](const std::string& word) { return is_overruled(word, said); });
  for (auto field : {&NormalLine::words, &NormalLine::defaults, &NormalLine::notes}) {
    std::vector<std::string>& all = command_line.*field;
    all.insert(all.end(), (file.*field).begin(), (file.*field).end());
  }
  return command_line;
}

}  // namespace fm::cli
