#include "text/tokenizer/extra_tokens.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "core/check.h"
#include "core/files/files.h"
#include "core/json_edit.h"
#include "core/json_tree.h"
#include "core/text.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/tokenizer.h"

namespace fm::tokenizer {
namespace {

namespace fs = std::filesystem;
using core::concat;
using core::json_string;
using ById = std::map<TokenId, AddedToken>;

std::string list_of(const std::vector<std::string>& items, const char* open, const char* close) {
  return concat(open, core::join(items, ", "), close);
}

std::string flags_of(const AddedToken& token) {
  const auto word = [](bool flag) { return flag ? "true" : "false"; };
  return concat(
      "\"content\": ", json_string(token.content), ", \"single_word\": ", word(token.single_word),
      ", \"lstrip\": ", word(token.lstrip), ", \"rstrip\": ", word(token.rstrip),
      ", \"normalized\": ", word(token.normalized), ", \"special\": ", word(token.special));
}

// The folder, with those of its files that have changed.
class Editor {
 public:
  explicit Editor(fs::path folder) : folder_(std::move(folder)) {}

  bool has(const std::string& name) const {
    std::error_code ignored;
    return texts.contains(name) || fs::is_regular_file(folder_ / name, ignored);
  }
  // "{}" where the folder does not have it.
  std::string text(const std::string& name) const {
    const auto found = texts.find(name);
    if (found != texts.end()) return found->second;
    if (!has(name)) return "{}\n";
    return core::read_small_file(folder_ / name, core::kMostListing).text;
  }
  core::JsonTree tree(const std::string& name) const {
    return core::parse_json(text(name), (folder_ / name).string());
  }
  void set(const std::string& name, std::string_view key, const std::string& value) {
    texts[name] = core::with_member(text(name), key, value);
  }

  core::FileTexts texts;

 private:
  fs::path folder_;
};

// The list of all, as the tokenizers wheel saves them.
void list_in_json(Editor& editor, const ById& all) {
  std::vector<std::string> items;
  for (const auto& [id, token] : all) {
    items.push_back(concat("\n    {\"id\": ", id, ", ", flags_of(token), "}"));
  }
  editor.set("tokenizer.json", "added_tokens", concat("[", core::join(items, ","), "\n  ]"));
}

// {"16": {"content": ..}}, of transformers 4.
void list_in_decoder(Editor& editor, const ById& all) {
  std::vector<std::string> items;
  for (const auto& [id, token] : all) {
    items.push_back(concat("\n    \"", id, "\": {", flags_of(token), "}"));
  }
  editor.set("tokenizer_config.json", "added_tokens_decoder",
             concat("{", core::join(items, ","), "\n  }"));
}

// Appends names to a list, without those that it has.
void append_names(Editor& editor, const std::string& file, const char* key,
                  const std::vector<std::string>& names) {
  const core::JsonTree root = editor.tree(file);
  std::vector<std::string> items;
  std::vector<std::string> known;
  if (const core::JsonTree* list = root.find(key)) {
    for (const core::JsonTree& item : list->array()) {
      const bool text = item.kind == core::JsonKind::kString;
      known.push_back(text ? item.string() : item.at("content").string());
      items.push_back(text ? json_string(known.back())
                           : concat("{", flags_of(read_added_token(item)), "}"));
    }
  }
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) == known.end()) items.push_back(json_string(name));
  }
  editor.set(file, key, list_of(items, "[", "]"));
}

// Under the key that the folder has: transformers 5 writes extra_special_tokens, of which 4 expects
// an object.
void name_in_config(Editor& editor, const std::vector<std::string>& names) {
  const char* const file = "tokenizer_config.json";
  const core::JsonTree root = editor.tree(file);
  const core::JsonTree* const extra = root.find("extra_special_tokens");
  const bool listed = extra != nullptr && extra->kind == core::JsonKind::kArray;
  append_names(editor, file, listed ? "extra_special_tokens" : "additional_special_tokens", names);
  if (editor.has("special_tokens_map.json")) {
    append_names(editor, "special_tokens_map.json", "additional_special_tokens", names);
  }
}

// All, as those that only the config names would follow them.
void list_in_older_file(Editor& editor, const ById& all) {
  for (const auto& [id, token] : all) {
    editor.set("added_tokens.json", token.content, std::to_string(id));
  }
}

void add(Editor& editor, const std::vector<std::string>& names, const Tokenizer& tokenizer) {
  const ById all = tokenizer.added_with(names);
  const core::JsonTree config = editor.tree("tokenizer_config.json");
  const bool has_decoder = config.find("added_tokens_decoder") != nullptr;
  const bool has_json = editor.has("tokenizer.json");
  if (has_json) list_in_json(editor, all);
  if (has_decoder) list_in_decoder(editor, all);
  if (!has_json || editor.has("tokenizer_config.json")) name_in_config(editor, names);
  const bool older = editor.has("added_tokens.json") || (!has_json && !has_decoder);
  if (older) list_in_older_file(editor, all);
}

void set_eos(Editor& editor, const std::string& eos, const Tokenizer& before, TokenId id) {
  editor.set("tokenizer_config.json", "eos_token", json_string(eos));
  if (editor.has("special_tokens_map.json")) {
    editor.set("special_tokens_map.json", "eos_token", json_string(eos));
  }
  const char* const generation = "generation_config.json";
  const std::string given = editor.has(generation) ? editor.text(generation) : "";
  editor.texts[generation] = with_end(given, id, before);
}

}  // namespace

core::FileTexts with_tokens(const fs::path& folder, const ExtraTokens& extra) {
  if (extra.none()) return {};
  FM_USER_CHECK(fs::is_directory(folder),
                "--add_tokens and --eos_token change the tokenizer of a folder; name the folder "
                "instead of one of its files (",
                folder.string(), ")");
  const auto before = open_tokenizer(folder.string());
  Editor editor(folder);
  if (!extra.tokens.empty()) add(editor, extra.tokens, *before);
  if (extra.eos.empty()) return editor.texts;
  const TokenId id = open_tokenizer(folder.string(), editor.texts)->token_to_id(extra.eos);
  FM_USER_CHECK(id != kNoToken, "--eos_token must be a token of the tokenizer; correct it, or add ",
                "it with --add_tokens \"", extra.eos, "\" (", folder.string(), ")");
  set_eos(editor, extra.eos, *before, id);
  return editor.texts;
}

std::string with_end(const std::string& given, std::int64_t end, const Tokenizer& before) {
  std::vector<std::string> ends = {std::to_string(end)};
  const auto append = [&](std::int64_t id) {
    const std::string text = std::to_string(id);
    if (id >= 0 && std::ranges::find(ends, text) == ends.end()) ends.push_back(text);
  };
  const SpecialIds& special = before.special_ids();
  std::string text = given.empty() ? "{}\n" : given;
  const auto name = [&](const char* key, TokenId id) {
    if (given.empty() && id >= 0) text = core::with_member(text, key, std::to_string(id));
  };
  name("bos_token_id", special.bos);
  name("pad_token_id", special.pad);
  const core::JsonTree root = core::parse_json(text, "generation_config.json");
  const core::JsonTree* const named = root.find("eos_token_id");
  if (named == nullptr) append(special.eos);
  if (named != nullptr && named->kind == core::JsonKind::kArray) {
    for (const core::JsonTree& id : named->array()) append(id.whole());
  } else if (named != nullptr) {
    append(named->whole());
  }
  return core::with_member(text, "eos_token_id", list_of(ends, "[", "]"));
}

}  // namespace fm::tokenizer
