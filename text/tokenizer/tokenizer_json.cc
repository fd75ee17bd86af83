#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/text.h"
#include "text/tokenizer/open_tokenizer.h"
#include "text/tokenizer/pre_tokenizer.h"

namespace fm::tokenizer {
namespace {

void put_bpe(TokenizerParts& parts, const JsonTree& model, const TokenizerFile& file) {
  for (const auto& [token, id] : file.lists.ids) parts.vocabulary->put(token, id, model.where);
  const auto bpe =
      std::make_shared<Bpe>(*parts.vocabulary, read_bpe_options(model), file.lists, model.where);
  PreTokenizer pre_tokenizer =
      read_pre_tokenizer(file.root.find("pre_tokenizer"), bpe->may_read_bytes());
  if (pre_tokenizer.byte_level) bpe->read_bytes();
  parts.pre_tokenizer = std::move(pre_tokenizer.steps);
  parts.model = [bpe](std::string_view piece, Workspace& space, std::vector<TokenId>& ids) {
    bpe->encode(piece, space.words, ids);
  };
}

void put_unigram(TokenizerParts& parts, const JsonTree& model, const TokenizerFile& file) {
  const auto& pieces = file.lists.scores;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    parts.vocabulary->put(pieces[id].first, static_cast<std::int64_t>(id), model.where);
  }
  const JsonTree* unk = model.find("unk_id");
  const std::int64_t unk_id = unk == nullptr ? kNoToken : unk->whole();
  FM_DATA_CHECK(unk_id >= kNoToken && unk_id < kMostIds, model.where,
                ": unk_id must be an id of the vocabulary; correct the file (", unk_id, ")");
  const auto unigram = std::make_shared<const Unigram>(
      pieces, static_cast<TokenId>(unk_id), model.flag_or("byte_fallback", false), model.where);
  parts.pre_tokenizer = read_pre_tokenizer(file.root.find("pre_tokenizer"), false).steps;
  parts.model = [unigram](std::string_view piece, Workspace& space, std::vector<TokenId>& ids) {
    unigram->encode(piece, space.unigram, ids);
  };
}

void require_one_of(const JsonTree& value, std::initializer_list<std::string_view> names) {
  if (std::find(names.begin(), names.end(), value.string()) != names.end()) return;
  value.refuse(core::concat("one of ",
                            core::join(std::vector<std::string>(names.begin(), names.end()), ", "),
                            " is required; correct the file (", value.string(), ")"));
}

// What has no effect here must still be what the wheel takes.
void check_limits(const JsonTree& root) {
  constexpr double kMostId = 4294967295;
  constexpr double kMostSize = 9007199254740992;  // 2^53
  if (const JsonTree* truncation = root.find("truncation")) {
    truncation->at("max_length").count(kMostSize);
    truncation->at("stride").count(kMostSize);
    require_one_of(truncation->at("strategy"), {"LongestFirst", "OnlyFirst", "OnlySecond"});
    if (const JsonTree* side = truncation->find("direction")) {
      require_one_of(*side, {"Left", "Right"});
    }
  }
  if (const JsonTree* padding = root.find("padding")) {
    const JsonTree& strategy = padding->at("strategy");
    if (strategy.kind == JsonKind::kObject) {
      strategy.at("Fixed").count(kMostSize);
    } else {
      require_one_of(strategy, {"BatchLongest"});
    }
    require_one_of(padding->at("direction"), {"Left", "Right"});
    for (const char* key : {"pad_id", "pad_type_id"}) padding->at(key).count(kMostId);
    if (const JsonTree* multiple = padding->find("pad_to_multiple_of")) multiple->count(kMostSize);
    padding->at("pad_token").string();
  }
}

}  // namespace

void put_components(TokenizerParts& parts, const TokenizerFile& file) {
  const JsonTree& model = file.root.at("model");
  const std::string type = model.string_or("type", file.lists.scores.empty() ? "BPE" : "Unigram");
  parts.vocabulary->reserve(file.lists.ids.size() + file.lists.scores.size());
  if (type == "BPE") {
    put_bpe(parts, model, file);
  } else if (type == "Unigram") {
    put_unigram(parts, model, file);
  } else {
    model.refuse(core::concat("model \"", type, "\" is not supported; BPE and Unigram are"));
  }
  parts.normalizer = read_normalizer(file.root.find("normalizer"));
  parts.post_processor = read_post_processor(file.root.find("post_processor"));
  parts.decoder = read_decoder(file.root.find("decoder"));
}

Parts read_tokenizer_json(const std::string& path, const std::string& text) {
  auto parts = std::make_unique<TokenizerParts>();
  parts->where = path;
  const TokenizerFile file = read_tokenizer_file(text, path);
  const std::string version = file.root.string_or("version", "1.0");
  FM_DATA_CHECK(version == "1.0", path, ": version 1.0 is required; save it again with a current ",
                "tokenizers package (", version, ")");
  check_limits(file.root);
  put_components(*parts, file);
  std::vector<AddedToken> added;
  if (const JsonTree* tokens = file.root.find("added_tokens")) {
    for (const JsonTree& token : tokens->array()) added.push_back(read_listed_token(token));
  }
  parts->added.add(added, *parts->vocabulary);
  return parts;
}

}  // namespace fm::tokenizer
