#include <utility>

#include "core/check.h"
#include "core/text.h"
#include "text/tokenizer/open_tokenizer.h"

namespace fm::tokenizer {
namespace {

// What transformers puts around such a vocabulary, by tokenizer_class.
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
