#include "text/tokenizer/post_processor.h"

#include "core/check.h"

namespace fm::tokenizer {
namespace {

std::vector<TokenId> read_ids(const JsonTree& tokens, const std::string& name) {
  const JsonTree* token = tokens.find(name);
  if (token == nullptr) {
    tokens.refuse(core::concat("special token \"", name, "\" is required; add it"));
  }
  std::vector<TokenId> ids;
  for (const JsonTree& id : token->at("ids").array()) {
    const std::int64_t value = id.whole();
    if (value < 0 || value >= kMostIds) id.refuse("an id must be in [0, 2^24); correct the file");
    ids.push_back(static_cast<TokenId>(value));
  }
  return ids;
}

Template read_template(const JsonTree& settings) {
  Template parts;
  for (const JsonTree& piece : settings.at("single").array()) {
    if (const JsonTree* special = piece.find("SpecialToken")) {
      parts.push_back({read_ids(settings.at("special_tokens"), special->at("id").string()), false});
      continue;
    }
    const std::string sequence = piece.at("Sequence").at("id").string();
    if (sequence != "A") piece.refuse("the template of one text has no sequence B; correct it");
    parts.push_back({{}, true});
  }
  return parts;
}

// ["[SEP]", 102]
TokenId read_pair(const JsonTree& pair) {
  const std::vector<JsonTree>& items = pair.array();
  if (items.size() != 2) pair.refuse("a token and its id are required; correct the file");
  const std::int64_t value = items[1].whole();
  if (value < 0 || value >= kMostIds) pair.refuse("an id must be in [0, 2^24); correct the file");
  return static_cast<TokenId>(value);
}

}  // namespace

Template read_post_processor(const JsonTree* settings) {
  if (settings == nullptr) return {};
  const std::string type = settings->at("type").string();
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
  for (const JsonTree& part : settings->at("processors").array()) {
    Template next = read_post_processor(&part);
    if (!made.empty() && !next.empty()) {
      part.refuse("a second template in one sequence is not supported");
    }
    if (!next.empty()) made = std::move(next);
  }
  return made;
}

}  // namespace fm::tokenizer
