#include "text/tokenizer/tokenizer_file.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "core/check.h"
#include "core/text.h"
#include "text/tokenizer/open_tokenizer.h"
#include "text/tokenizer/pre_tokenizer.h"

namespace fm::tokenizer {
namespace {

// 10 to the power of `exponent`, 0 to 308.
double power_of_ten(int exponent) {
  const std::string text = core::concat("1e", exponent);
  double power = 0.0;
  std::from_chars(text.data(), text.data() + text.size(), power);
  return power;
}

// What serde_json without float_roundtrip, as the tokenizers wheel has it, makes of a number: at
// most 19 or 20 digits become an integer, which is rounded, multiplied or divided, and rounded once
// more (serde_json, src/de.rs). One number in eight differs in its last bit from `nearest`, and
// equal sums of scores are then none.
double as_serde_reads(std::string_view text, double nearest) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t digits = 0;
  int exponent = 0;
  bool fraction = false;
  bool full = false;
  std::size_t at = text.starts_with('-') ? 1 : 0;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.') {
      fraction = true;
      continue;
    }
    const auto digit = static_cast<std::uint64_t>(text[at] - '0');
    full = full || digits > (kMost - digit) / 10;
    if (!full) digits = digits * 10 + digit;
    if (full != fraction) exponent += full ? 1 : -1;  // a digit left out, or behind the point
  }
  int written = 0;
  if (at < text.size()) {
    const std::size_t begin = at + (text[at + 1] == '+' ? 2 : 1);
    const auto [end, error] =
        std::from_chars(text.data() + begin, text.data() + text.size(), written);
    if (error != std::errc() || end != text.data() + text.size()) return nearest;
  }
  exponent += written;
  constexpr int kLargest = 308;
  if (exponent < -kLargest || exponent > kLargest) return nearest;
  const auto whole = static_cast<double>(digits);
  const double value =
      exponent < 0 ? whole / power_of_ten(-exponent) : whole * power_of_ten(exponent);
  return text.starts_with('-') ? -value : value;
}

// Fills the lists where the path is theirs; the rest becomes the tree.
class FileBuilder final : public core::JsonTreeBuilder {
 public:
  explicit FileBuilder(const std::string& name) : JsonTreeBuilder(name), name_(name) {}

  bool scalar(core::JsonScalar& value) override {
    if (value.kind == JsonKind::kNumber && !value.is_integer) {
      value.number = as_serde_reads(value.digits, value.number);
    }
    return list_ == List::kNone ? JsonTreeBuilder::scalar(value) : put_in_list(value);
  }
  bool open(JsonKind kind) override {
    if (list_ != List::kNone) return open_in_list(kind);
    if (depth() == 1) in_model_ = key_ == "model";
    if (depth() != 2 || !in_model_ || (key_ != "vocab" && key_ != "merges")) {
      return JsonTreeBuilder::open(kind);
    }
    list_ = key_ == "vocab" ? List::kVocab : List::kMerges;
    if (list_ == List::kVocab) lists.ids.clear(), lists.scores.clear();
    if (list_ == List::kMerges) lists.merges.clear();
    list_kind_ = kind;
    return true;
  }
  bool close() override {
    if (list_ == List::kNone) return JsonTreeBuilder::close();
    if (depth() == kListDepth) {
      list_ = List::kNone;
    } else {
      finish_pair();
    }
    return true;
  }

  ModelLists lists;

 private:
  static constexpr std::size_t kListDepth = 2;
  enum class List : std::uint8_t { kNone, kVocab, kMerges };

  bool open_in_list(JsonKind kind) {
    require_in_list(depth() == kListDepth + 1 && list_kind_ == JsonKind::kArray &&
                    kind == JsonKind::kArray);
    texts_.clear();
    score_.reset();
    return true;
  }

  bool put_in_list(core::JsonScalar& value) {
    const bool is_text = value.kind == JsonKind::kString;
    const bool is_number = value.kind == JsonKind::kNumber;
    const double number = value.is_integer ? static_cast<double>(value.integer) : value.number;
    if (depth() == kListDepth + 2) {
      require_in_list(is_text || is_number);
      if (is_text) texts_.push_back(std::move(*value.text));
      if (is_number) score_ = number;
    } else if (list_ == List::kMerges && is_text && !value.text->starts_with("#version")) {
      const std::string& text = *value.text;
      const std::size_t space = text.find(' ');
      require_in_list(space != text.npos && text.find(' ', space + 1) == text.npos);
      lists.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    } else if (list_ == List::kVocab && list_kind_ == JsonKind::kObject) {
      require_in_list(is_number && number >= 0 && number < 4.3e9);
      lists.ids.emplace_back(std::move(key_), static_cast<std::int64_t>(number));
    } else {
      require_in_list(list_ == List::kMerges && is_text);
    }
    return true;
  }

  void finish_pair() {
    if (list_ == List::kMerges) {
      require_in_list(texts_.size() == 2 && !score_);
      lists.merges.emplace_back(std::move(texts_[0]), std::move(texts_[1]));
    } else {
      require_in_list(texts_.size() == 1 && score_);
      lists.scores.emplace_back(std::move(texts_[0]), *score_);
    }
  }

  void require_in_list(bool holds) const {
    FM_DATA_CHECK(
        holds, name_, ": model.",
        list_ == List::kVocab ? "vocab must be {\"token\": id} or [[\"piece\", score]]"
                              : "merges must be [\"a b\"] or [[\"a\", \"b\"]]",
        "; correct the file (entry ",
        list_ == List::kVocab ? lists.ids.size() + lists.scores.size() : lists.merges.size(), ")");
  }

  const std::string& name_;
  bool in_model_ = false;
  List list_ = List::kNone;
  JsonKind list_kind_ = JsonKind::kNull;
  std::vector<std::string> texts_;
  std::optional<double> score_;
};

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

// What transformers puts around a vocab.json with merges.txt, by tokenizer_class.
constexpr std::string_view kGpt2 = R"({
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
  "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE"}})";
constexpr std::string_view kGpt2WithPrefix = R"({
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true},
  "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE"}})";
constexpr std::string_view kQwen2 =
    R"({
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex": ")"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|)"
    R"( ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
  "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE"}})";

std::string_view components_of(const JsonTree* config) {
  if (config == nullptr) return kGpt2;
  std::string name = config->string_or("tokenizer_class", "GPT2Tokenizer");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  if (name == "Qwen2Tokenizer") return kQwen2;
  constexpr std::string_view kLikeGpt2[] = {"GPT2Tokenizer", "GPTNeoXTokenizer", "CodeGenTokenizer",
                                            "PreTrainedTokenizer"};
  for (const std::string_view known : kLikeGpt2) {
    if (known == name) return config->flag_or("add_prefix_space", false) ? kGpt2WithPrefix : kGpt2;
  }
  config->refuse(core::concat("tokenizer_class \"", name,
                              "\" is not supported with vocab.json and ",
                              "merges.txt; save the folder with a tokenizer.json"));
}

}  // namespace

TokenizerFile read_tokenizer_file(std::string_view text, const std::string& file_name) {
  FileBuilder builder(file_name);
  core::build_tree(text, builder);
  return {std::move(builder.root), std::move(builder.lists)};
}

std::vector<std::pair<std::string, std::int64_t>> read_vocab_json(const std::string& text,
                                                                  const std::string& file_name) {
  // The same lists as in a tokenizer.json, whose reader checks them.
  return read_tokenizer_file("{\"model\":{\"vocab\":" + text + "}}", file_name).lists.ids;
}

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

Parts read_vocab_and_merges(const std::string& where, const VocabAndMerges& texts,
                            const JsonTree* config) {
  auto parts = std::make_unique<TokenizerParts>();
  parts->where = where;
  TokenizerFile file = read_tokenizer_file(components_of(config), where + "/vocab.json");
  file.lists.ids = read_vocab_json(texts.vocab, where + "/vocab.json");
  std::size_t number = 0;
  for (std::string_view line : core::split(texts.merges, '\n')) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("#version") || line.empty()) continue;
    const std::size_t space = line.find(' ');
    FM_DATA_CHECK(space != line.npos && line.find(' ', space + 1) == line.npos, where,
                  "/merges.txt:", number, ": two tokens with one space are required; correct it (",
                  line, ")");
    file.lists.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  put_components(*parts, file);
  return parts;
}

}  // namespace fm::tokenizer
