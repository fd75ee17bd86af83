#include "text/chat/model_folder.h"

#include <algorithm>
#include <array>

#include "core/files/files.h"
#include "text/jinja/json_text.h"

namespace fm::chat {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path, core::Bytes most) {
  core::SmallFile file = core::read_small_file(path, most);
  FM_DATA_CHECK(file.problem.empty(), path.string(), ": a readable file is required; ",
                file.problem);
  return std::move(file.text);
}

// A folder, some of whose files have another text.
struct TextFolder {
  const fs::path& path;
  const core::FileTexts& texts;
};

// The JSON object of a file; undefined where there is no such file.
jinja::Value read_object(const TextFolder& folder, const char* name) {
  const fs::path path = folder.path / name;
  const auto given = folder.texts.find(name);
  if (given == folder.texts.end() && !fs::exists(path)) return {};
  jinja::Value value = jinja::parse_json(
      given != folder.texts.end() ? given->second : read_text(path, core::kMostListing),
      path.string() + ":1", jinja::LargeIntegers::kFloats);
  FM_DATA_CHECK(value.dict() != nullptr, path.string(), ":1: a JSON object is required");
  return value;
}

const jinja::Value* field(const jinja::Value& object, std::string_view name) {
  const jinja::Dict* dict = object.dict();
  return dict == nullptr ? nullptr : dict->find(name);
}

// A token is its text, or an object with its text; nullptr: neither.
const std::string* token_text(const jinja::Value* token) {
  if (token == nullptr) return nullptr;
  if (token->text() != nullptr) return token->text();
  const jinja::Value* content = field(*token, "content");
  return content == nullptr ? nullptr : content->text();
}

void add_tokens(jinja::Entries& tokens, const jinja::Value& object) {
  const jinja::Dict* dict = object.dict();
  if (dict == nullptr) return;
  for (const auto& [name, token] : dict->entries) {
    const std::string* text = token_text(&token);
    if (name.ends_with("_token") && text != nullptr) jinja::set_entry(tokens, name, *text);
  }
}

jinja::Entries read_tokens_of(const TextFolder& folder, const jinja::Value& config) {
  jinja::Entries tokens;
  add_tokens(tokens, config);
  for (const char* key : {"model_specific_special_tokens", "extra_special_tokens"}) {
    if (const jinja::Value* more = field(config, key)) add_tokens(tokens, *more);
  }
  // Folders from before transformers 4.34 keep them in a file of their own.
  if (field(config, "added_tokens_decoder") == nullptr)
    add_tokens(tokens, read_object(folder, "special_tokens_map.json"));
  return tokens;
}

std::vector<std::string> read_added_tokens(const TextFolder& folder, const jinja::Value& config,
                                           const jinja::Entries& named) {
  std::vector<std::string> tokens;
  for (const auto& [name, token] : named) tokens.push_back(*token.text());
  const jinja::Value tokenizer = read_object(folder, "tokenizer.json");
  for (const jinja::Value* list :
       {field(tokenizer, "added_tokens"), field(config, "added_tokens_decoder"),
        field(config, "additional_special_tokens"), field(config, "extra_special_tokens"),
        field(config, "model_specific_special_tokens")}) {
    if (list == nullptr || list->is<jinja::None>()) continue;
    const bool by_id = list->dict() != nullptr;
    FM_DATA_CHECK(by_id || list->sequence() != nullptr, folder.path.string(),
                  ": added_tokens of tokenizer.json and the special tokens of "
                  "tokenizer_config.json must be lists or objects; correct the file (",
                  kind_name(*list), ")");
    for (const jinja::Value& item : jinja::iterate(*list)) {
      const std::string* text = token_text(by_id ? list->dict()->find(*item.text()) : &item);
      if (text != nullptr && !text->empty()) tokens.push_back(*text);
    }
  }
  if (field(config, "added_tokens_decoder") == nullptr) {
    const jinja::Value older = read_object(folder, "added_tokens.json");
    if (const jinja::Dict* ids = older.dict()) {
      for (const auto& [token, id] : ids->entries) tokens.push_back(token);
    }
  }
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

struct NamedText {
  std::string name;
  std::string text;
  std::string file;
};

std::vector<NamedText> template_files(const fs::path& folder) {
  std::vector<NamedText> found;
  const auto add = [&](const std::string& name, const fs::path& path) {
    found.push_back({name, read_text(path, core::kMostConfig), path.string()});
  };
  const fs::path single = folder / "chat_template.jinja";
  if (fs::exists(single)) add("default", single);
  const fs::path several = folder / "additional_chat_templates";
  if (!fs::is_directory(several)) return found;
  for (const auto& entry : fs::directory_iterator(several)) {
    if (entry.path().extension() == ".jinja") add(entry.path().stem().string(), entry.path());
  }
  return found;
}

std::vector<NamedText> configured_templates(const jinja::Value& config, const std::string& file) {
  const jinja::Value* given = field(config, "chat_template");
  if (given == nullptr || given->is<jinja::None>()) return {};
  const std::string where = file + " (chat_template)";
  if (given->text() != nullptr) return {{"default", *given->text(), where}};
  std::vector<NamedText> found;
  FM_DATA_CHECK(given->sequence() != nullptr, file,
                ": chat_template must be text or a list of name and template");
  for (const jinja::Value& item : given->sequence()->items) {
    const jinja::Value* name = field(item, "name");
    const jinja::Value* text = field(item, "template");
    const bool good =
        name != nullptr && text != nullptr && name->text() != nullptr && text->text() != nullptr;
    FM_DATA_CHECK(good, file, ": each chat_template of a list must have a name and a template");
    found.push_back({*name->text(), *text->text(), where});
  }
  return found;
}

const NamedText* named(const std::vector<NamedText>& templates, std::string_view name) {
  const auto found = std::find_if(templates.begin(), templates.end(),
                                  [&](const NamedText& one) { return one.name == name; });
  return found == templates.end() ? nullptr : &*found;
}

ChatFormat with_tokens(const TextFolder& folder, const jinja::Value& config,
                       jinja::Template plain) {
  ChatFormat format{std::move(plain), {}, read_tokens_of(folder, config), {}};
  format.added_tokens = read_added_tokens(folder, config, format.tokens);
  return format;
}

}  // namespace

std::optional<ChatFormat> read_chat_format(const fs::path& folder, const core::FileTexts& texts) {
  const fs::path config_file = folder / "tokenizer_config.json";
  const jinja::Value config = read_object({folder, texts}, "tokenizer_config.json");
  std::vector<NamedText> templates = template_files(folder);
  if (templates.empty()) templates = configured_templates(config, config_file.string());
  if (templates.empty()) return std::nullopt;
  const NamedText* plain = named(templates, "default");
  FM_DATA_CHECK(plain != nullptr, folder.string(),
                ": one of several chat templates must be named default; give one by its file (",
                templates.size(), " templates)");
  ChatFormat format =
      with_tokens({folder, texts}, config, jinja::Template(plain->text, plain->file));
  if (const NamedText* tools = named(templates, "tool_use"))
    format.with_tools.emplace(tools->text, tools->file);
  return format;
}

ChatFormat read_chat_format(const fs::path& folder, const fs::path& template_file,
                            const core::FileTexts& texts) {
  const TextFolder read{folder, texts};
  return with_tokens(
      read, read_object(read, "tokenizer_config.json"),
      jinja::Template(read_text(template_file, core::kMostConfig), template_file.string()));
}

}  // namespace fm::chat
