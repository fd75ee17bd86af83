#include "text/tokenizer/open_tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <optional>
#include <sstream>

#include "core/check.h"
#include "core/files/files.h"

namespace fm::tokenizer {
namespace {

namespace fs = std::filesystem;

// The files of a tokenizer in a folder; what of them decides about ids is part of its identity.
constexpr std::string_view kFiles[] = {"tokenizer.json",
                                       "vocab.json",
                                       "merges.txt",
                                       "tokenizer.model",
                                       "special_tokens_map.json",
                                       "tokenizer_config.json",
                                       "added_tokens.json",
                                       "chat_template.jinja"};

std::string read_file(const fs::path& path) {
  core::SmallFile file = core::read_small_file(path, core::kMostListing);
  FM_DATA_CHECK(file.problem.empty(), path.string(),
                ": a readable file of a tokenizer is required; check it (", file.problem, ")");
  return std::move(file.text);
}

// FNV-1a, 64 bits: names files, guards against nothing.
class ContentHash {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) {
      hash_ = (hash_ ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
    }
    hash_ = (hash_ ^ bytes.size()) * 0x100000001B3;
  }
  std::string text() const {
    std::ostringstream out;
    out << std::hex << std::setw(16) << std::setfill('0') << hash_;
    return out.str();
  }

 private:
  std::uint64_t hash_ = 0xCBF29CE484222325;
};

// A folder that is being read.
class Folder {
 public:
  explicit Folder(fs::path path, const core::FileTexts& texts = {})
      : path_(std::move(path)), texts_(texts) {}

  std::string name(std::string_view file) const { return (path_ / file).string(); }
  bool has(std::string_view file) const {
    std::error_code ignored;
    return texts_.contains(std::string(file)) || fs::is_regular_file(path_ / file, ignored);
  }
  std::string read(std::string_view file) {
    const auto given = texts_.find(std::string(file));
    std::string text = given != texts_.end() ? given->second : read_file(path_ / file);
    hash_.add(file);
    hash_.add(text);
    return text;
  }
  // The root of a JSON file, nullopt when the folder does not have it.
  std::optional<JsonTree> settings(std::string_view file) {
    if (!has(file)) return std::nullopt;
    return core::parse_json(read(file), name(file));
  }
  std::vector<std::string> files() const {
    std::vector<std::string> found;
    for (const std::string_view file : kFiles) {
      if (has(file)) found.push_back(name(file));
    }
    return found;
  }
  std::string identity() const { return hash_.text(); }

 private:
  fs::path path_;
  core::FileTexts texts_;
  ContentHash hash_;
};

using Tokens = std::vector<AddedToken>;

// "<s>" or {"content": "<s>", ..}.
AddedToken read_named_token(const JsonTree& value) {
  if (value.kind != JsonKind::kString) {
    AddedToken token = read_added_token(value);
    token.special = true;
    return token;
  }
  return {.content = value.string(), .normalized = false, .special = true};
}

// What tokenizer_config.json and the older special_tokens_map.json say; the first counts.
struct Config {
  std::optional<JsonTree> config;
  std::optional<JsonTree> map;

  const JsonTree* find(std::string_view key) const {
    const JsonTree* found = config ? config->find(key) : nullptr;
    return found == nullptr && map ? map->find(key) : found;
  }
  bool flag_or(std::string_view key, bool absent) const {
    return config ? config->flag_or(key, absent) : absent;
  }
  const JsonTree* file() const { return config ? &*config : nullptr; }
};

constexpr std::string_view kNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};

// Tokens with a name of the model's own: "image_token": "<image>", an object of
// extra_special_tokens, or, where there are none of these, model_specific_special_tokens.
Tokens specific_tokens(const Config& config) {
  Tokens specific;
  if (!config.config) return specific;
  for (const auto& [name, token] : config.config->object()) {
    const bool other = std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames);
    const bool text = token.kind == JsonKind::kString;
    if (other && text && name.ends_with("_token")) specific.push_back(read_named_token(token));
  }
  const auto add_members = [&](std::string_view key) {
    const JsonTree* value = config.find(key);
    if (value == nullptr || value->kind == JsonKind::kArray) return;
    for (const auto& [name, token] : value->object()) specific.push_back(read_named_token(token));
  };
  add_members("extra_special_tokens");
  if (specific.empty()) add_members("model_specific_special_tokens");
  return specific;
}

Tokens named_tokens(const Config& config) {
  Tokens named;
  for (const std::string_view key : kNames) {
    if (const JsonTree* value = config.find(key)) named.push_back(read_named_token(*value));
  }
  for (AddedToken& token : specific_tokens(config)) named.push_back(std::move(token));
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    const JsonTree* value = config.find(key);
    if (value == nullptr || value->kind == JsonKind::kObject) continue;
    for (const JsonTree& token : value->array()) named.push_back(read_named_token(token));
  }
  return named;
}

// {"5": {"content": ..}}, in the order of ids.
Tokens listed_tokens(const Config& config) {
  std::vector<std::pair<std::int64_t, AddedToken>> listed;
  if (const JsonTree* tokens = config.find("added_tokens_decoder")) {
    for (const auto& [key, token] : tokens->object()) {
      const bool whole = !key.empty() && key.size() < 10 &&
                         key.find_first_not_of("0123456789") == std::string::npos;
      if (!whole) token.refuse("an id is required as its key; correct the file");
      listed.emplace_back(std::stoll(key), read_added_token(token));
    }
  }
  std::stable_sort(listed.begin(), listed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Tokens tokens;
  for (auto& [id, token] : listed) tokens.push_back(std::move(token));
  return tokens;
}

// {"<extra>": 32000}, in the order of ids: what older folders have in its place.
Tokens older_tokens(Folder& folder, const Tokens& named) {
  std::vector<std::pair<std::int64_t, std::string>> older;
  if (const auto file = folder.settings("added_tokens.json")) {
    for (const auto& [token, id] : file->object()) older.emplace_back(id.whole(), token);
  }
  std::sort(older.begin(), older.end());
  Tokens tokens;
  for (const auto& [id, token] : older) {
    const bool special = std::ranges::find(named, token, &AddedToken::content) != named.end();
    tokens.push_back({.content = token, .normalized = !special, .special = special});
  }
  return tokens;
}

// As transformers completes a tokenizer: tokens of the config that are not there or differ, then
// named ones that are no added tokens yet.
void add_tokens(TokenizerParts& parts, const Config& config, Folder& folder) {
  const Tokens named = named_tokens(config);
  const bool lists = config.find("added_tokens_decoder") != nullptr;
  Tokens more;
  for (AddedToken& token : lists ? listed_tokens(config) : older_tokens(folder, named)) {
    const AddedToken* known = parts.added.token(parts.added.id_of(token.content));
    if (known == nullptr || (lists && !(*known == token))) more.push_back(std::move(token));
  }
  parts.added.add(more, *parts.vocabulary);
  more.clear();
  for (const AddedToken& token : named) {
    if (parts.added.id_of(token.content) == kNoToken) more.push_back(token);
  }
  parts.added.add(more, *parts.vocabulary);
  if (config.flag_or("split_special_tokens", false)) parts.added.split_special();
}

TokenId id_of(const TokenizerParts& parts, const JsonTree* token) {
  if (token == nullptr) return kNoToken;
  const std::string content = read_named_token(*token).content;
  const TokenId id = parts.added.id_of(content);
  return id != kNoToken ? id : parts.vocabulary->find(content);
}

void put_special_ids(TokenizerParts& parts, const Config& config,
                     const std::optional<JsonTree>& generation) {
  SpecialIds& ids = parts.special_ids;
  const auto put = [&](const char* key, TokenId& id) {
    if (const JsonTree* token = config.find(key)) id = id_of(parts, token);
  };
  put("bos_token", ids.bos);
  put("eos_token", ids.eos);
  put("pad_token", ids.pad);
  put("unk_token", ids.unk);
  if (ids.eos != kNoToken) ids.ends.push_back(ids.eos);
  const JsonTree* ends = generation ? generation->find("eos_token_id") : nullptr;
  if (ends == nullptr) return;
  const auto add = [&](const JsonTree& id) {
    const auto value = static_cast<TokenId>(id.whole());
    if (std::find(ids.ends.begin(), ids.ends.end(), value) == ids.ends.end()) {
      ids.ends.push_back(value);
    }
  };
  if (ends->kind == JsonKind::kArray) {
    for (const JsonTree& id : ends->array()) add(id);
  } else {
    add(*ends);
  }
}

// Without a tokenizer.json it is the config that says what surrounds a text.
void put_template(TokenizerParts& parts, const Config& config) {
  const TokenId bos = id_of(parts, config.find("bos_token"));
  const TokenId eos = id_of(parts, config.find("eos_token"));
  if (config.flag_or("add_bos_token", false) && bos != kNoToken) {
    parts.post_processor.push_back({{bos}, false});
  }
  parts.post_processor.push_back({{}, true});
  if (config.flag_or("add_eos_token", false) && eos != kNoToken) {
    parts.post_processor.push_back({{eos}, false});
  }
}

Parts read_without_json(Folder& folder, const Config& config) {
  Parts parts;
  if (!folder.has("vocab.json") && folder.has("tokenizer.model")) {
    parts = read_sentencepiece(folder.name("tokenizer.model"), folder.read("tokenizer.model"),
                               config.file());
  } else {
    FM_DATA_CHECK(folder.has("vocab.json") && folder.has("merges.txt"), folder.name(""),
                  ": a tokenizer is required: tokenizer.json, vocab.json with merges.txt, or ",
                  "tokenizer.model; put one there");
    const VocabAndMerges texts{folder.read("vocab.json"), folder.read("merges.txt")};
    parts = read_vocab_and_merges(folder.name(""), texts, config.file());
  }
  add_tokens(*parts, config, folder);
  put_template(*parts, config);
  return parts;
}

Parts read_with_json(Folder& folder, const Config& config) {
  Parts parts = read_tokenizer_json(folder.name("tokenizer.json"), folder.read("tokenizer.json"));
  add_tokens(*parts, config, folder);
  return parts;
}

std::unique_ptr<const Tokenizer> finish(Parts parts, const Folder& folder) {
  parts->identity = folder.identity();
  if (parts->files.empty()) parts->files = folder.files();
  parts->added.finish(parts->normalizer);
  return std::make_unique<const Tokenizer>(std::move(parts));
}

}  // namespace

std::unique_ptr<const Tokenizer> open_tokenizer(const std::string& path,
                                                const core::FileTexts& texts) {
  const fs::path at(path);
  std::error_code ignored;
  if (!fs::is_directory(at, ignored)) {  // one file, and nothing beside it
    Folder folder(at.parent_path());
    const std::string name = at.filename().string();
    const std::string text = folder.read(name);
    Parts parts = name.ends_with(".json") ? read_tokenizer_json(path, text)
                                          : read_sentencepiece(path, text, nullptr);
    parts->files = {path};
    return finish(std::move(parts), folder);
  }
  Folder folder(at, texts);
  const Config config{folder.settings("tokenizer_config.json"),
                      folder.settings("special_tokens_map.json")};
  Parts parts = folder.has("tokenizer.json") ? read_with_json(folder, config)
                                             : read_without_json(folder, config);
  Folder beside(at, texts);  // what it says of the end of texts is no part of the identity
  put_special_ids(*parts, config, beside.settings("generation_config.json"));
  return finish(std::move(parts), folder);
}

}  // namespace fm::tokenizer
