#include "text/tokenizer/post_processor.h"

#include "core/check.h"

namespace fm::tokenizer {
namespace {

std::vector<TokenId> read_ids(const Settings& tokens, const std::string& name) {
  const Settings* token = tokens.find(name);
  if (token == nullptr) {
    tokens.refuse(core::concat("special token \"", name, "\" is required; add it"));
  }
  std::vector<TokenId> ids;
  for (const Settings& id : token->at("ids").items()) {
    const std::int64_t value = id.whole();
    if (value < 0 || value >= kMostIds) id.refuse("an id must be in [0, 2^24); correct the file");
    ids.push_back(static_cast<TokenId>(value));
  }
  return ids;
}

Template read_template(const Settings& settings) {
  Template parts;
  for (const Settings& piece : settings.at("single").items()) {
    if (const Settings* special = piece.find("SpecialToken")) {
      parts.push_back({read_ids(settings.at("special_tokens"), special->text("id")), false});
      continue;
    }
    const std::string sequence = piece.at("Sequence").text("id");
    if (sequence != "A") piece.refuse("the template of one text has no sequence B; correct it");
    parts.push_back({{}, true});
  }
  return parts;
}

// ["[SEP]", 102]
TokenId read_pair(const Settings& pair) {
  const std::vector<Settings>& items = pair.items();
  if (items.size() != 2) pair.refuse("a token and its id are required; correct the file");
  const std::int64_t value = items[1].whole();
  if (value < 0 || value >= kMostIds) pair.refuse("an id must be in [0, 2^24); correct the file");
  return static_cast<TokenId>(value);
}

}  // namespace

Template read_post_processor(const Settings* settings) {
  if (settings == nullptr) return {};
  const std::string type = settings->type();
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") return read_template(*settings);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    return {{{read_pair(settings->at("cls"))}, false},
            {{}, true},
            {{read_pair(settings->at("sep"))}, false}};
  }
  if (type != "Sequence") {
    settings->refuse(core::concat("post-processor \"", type, "\" is not supported"));
  }
  Template made;
  for (const Settings& part : settings->at("processors").items()) {
    Template next = read_post_processor(&part);
    if (!made.empty() && !next.empty()) {
      part.refuse("a second template in one sequence is not supported");
    }
    if (!next.empty()) made = std::move(next);
  }
  return made;
}

}  // namespace fm::tokenizer
