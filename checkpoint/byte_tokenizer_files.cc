#include "checkpoint/byte_tokenizer_files.h"

#include <nlohmann/json.hpp>

#include "core/byte_ids.h"

namespace fm::checkpoint {
namespace {

using nlohmann::ordered_json;

// Names that real text hardly holds: Hugging Face reads them as one id wherever they appear.
constexpr const char* kBosText = "<|begin_of_text|>";
constexpr const char* kEosText = "<|end_of_text|>";
constexpr const char* kPadText = "<|pad|>";

// GPT-2's map of bytes to visible characters (openai/gpt-2 src/encoder.py bytes_to_unicode):
// printable ones stand for themselves, the other 68 are U+0100 and up, in order. As UTF-8.
std::string visible(int byte, int& next_hidden) {
  const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  const int code = itself ? byte : 0x100 + next_hidden++;
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

ordered_json special(int id, const char* content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

ordered_json byte_level() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", false},
          {"use_regex", false}};
}

}  // namespace

std::string byte_tokenizer_json() {
  ordered_json vocab = ordered_json::object();
  int next_hidden = 0;
  for (int byte = 0; byte < core::kByteCount; ++byte) vocab[visible(byte, next_hidden)] = byte;
  const ordered_json model = {{"type", "BPE"},
                              {"dropout", nullptr},
                              {"unk_token", nullptr},
                              {"continuing_subword_prefix", nullptr},
                              {"end_of_word_suffix", nullptr},
                              {"fuse_unk", false},
                              {"byte_fallback", false},
                              {"ignore_merges", false},
                              {"vocab", vocab},
                              {"merges", ordered_json::array()}};
  const ordered_json added = {special(core::kBosId, kBosText), special(core::kEosId, kEosText),
                              special(core::kPadId, kPadText)};
  const ordered_json all = {
      {"version", "1.0"},          {"truncation", nullptr},   {"padding", nullptr},
      {"added_tokens", added},     {"normalizer", nullptr},   {"pre_tokenizer", byte_level()},
      {"post_processor", nullptr}, {"decoder", byte_level()}, {"model", model}};
  return all.dump(2) + "\n";
}

bool is_byte_tokenizer(std::string_view json) {
  using nlohmann::json_pointer;
  const auto ours = nlohmann::json::parse(byte_tokenizer_json());
  const auto theirs = nlohmann::json::parse(json, nullptr, false);
  if (theirs.is_discarded()) return false;
  for (const char* part :
       {"/added_tokens", "/pre_tokenizer", "/model/type", "/model/vocab", "/model/merges"}) {
    const json_pointer<std::string> at(part);
    if (!theirs.contains(at) || theirs.at(at) != ours.at(at)) return false;
  }
  return true;
}

std::string byte_tokenizer_config_json() {
  const ordered_json config = {
      {kTokenizerMarker, "bytes"}, {"tokenizer_class", "PreTrainedTokenizerFast"},
      {"bos_token", kBosText},     {"eos_token", kEosText},
      {"pad_token", kPadText},     {"add_bos_token", false},
      {"add_eos_token", false},    {"clean_up_tokenization_spaces", false}};
  return config.dump(2) + "\n";
}

std::string byte_generation_config_json() {
  const ordered_json config = {{"bos_token_id", core::kBosId},
                               {"eos_token_id", core::kEosId},
                               {"pad_token_id", core::kPadId}};
  return config.dump(2) + "\n";
}

}  // namespace fm::checkpoint
