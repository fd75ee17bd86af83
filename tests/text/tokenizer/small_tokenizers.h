// Small files of tokenizers, written by hand, so that ids can be told by reading them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace fm::tokenizer {

// Byte-level BPE. Ids: h e l o \u0120(space) w r d ! 0..8; he 9, ll 10, hell 11, hello 12; then
// added.
inline constexpr std::string_view kByteLevelJson = R"({
  "version": "1.0", "truncation": null, "padding": null,
  "added_tokens": [
    {"id": 13, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true},
    {"id": 14, "content": "[x]", "single_word": false, "lstrip": true, "rstrip": true,
     "normalized": false, "special": false},
    {"id": 15, "content": "led", "single_word": true, "lstrip": false, "rstrip": false,
     "normalized": false, "special": false}],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [13], "tokens": ["<s>"]}}},
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "dropout": null, "unk_token": null, "fuse_unk": false,
    "vocab": {"h": 0, "e": 1, "l": 2, "o": 3, "\u0120": 4, "w": 5, "r": 6, "d": 7, "!": 8,
              "he": 9, "ll": 10, "hell": 11, "hello": 12},
    "merges": ["h e", "l l", "he ll", "hell o"]}
})";

// Llama 2's kind: the ids are those of "vocab"; bytes of what is unknown.
inline constexpr std::string_view kMetaSpaceJson = R"({
  "version": "1.0",
  "added_tokens": [
    {"id": 0, "content": "<unk>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true},
    {"id": 1, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true}],
  "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
  "pre_tokenizer": null, "post_processor": null,
  "decoder": {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
    {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
  "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
    "vocab": {"<unk>": 0, "<s>": 1, "<0xC3>": 2, "<0xA9>": 3, "\u2581": 4, "a": 5, "b": 6,
              "\u2581a": 7, "ab": 8, "\u2581ab": 9},
    "merges": [["\u2581", "a"], ["a", "b"], ["\u2581a", "b"]]}
})";

// The same text with one piece replaced.
inline std::string with(std::string_view json, std::string_view piece, std::string_view other) {
  std::string changed(json);
  changed.replace(changed.find(piece), piece.size(), other);
  return changed;
}

// Protobuf's wire format, as far as a tokenizer.model has it.
class Message {
 public:
  Message& number(int field, std::uint64_t value) {
    put(static_cast<std::uint64_t>(field) << 3);
    put(value);
    return *this;
  }
  Message& real(int field, float value) {
    put(static_cast<std::uint64_t>(field) << 3 | 5);
    char bytes[4];
    std::memcpy(bytes, &value, 4);
    bytes_.append(bytes, 4);
    return *this;
  }
  Message& text(int field, std::string_view value) {
    put(static_cast<std::uint64_t>(field) << 3 | 2);
    put(value.size());
    bytes_ += value;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void put(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

inline std::string sentence_piece(std::string_view text, float score, int type) {
  return Message().text(1, text).real(2, score).number(3, static_cast<unsigned>(type)).bytes();
}

// Pieces <unk> <s> </s> \u2581 a b \u2581a ab \u2581ab \u2581b, ids 0 to 9, without bytes.
inline std::string small_model(int model_type) {
  Message model;
  model.text(1, sentence_piece("<unk>", 0, 2)).text(1, sentence_piece("<s>", 0, 3));
  model.text(1, sentence_piece("</s>", 0, 3));
  const std::string_view pieces[] = {"\u2581", "a", "b", "\u2581a", "ab", "\u2581ab", "\u2581b"};
  const float scores[] = {-3, -4, -5, -1, -2, -2.5, -6};
  for (int i = 0; i < 7; ++i) model.text(1, sentence_piece(pieces[i], scores[i], 1));
  model.text(2, Message().number(3, static_cast<unsigned>(model_type)).bytes());
  model.text(3, Message().text(1, "identity").number(3, 1).number(4, 1).bytes());
  return model.bytes();
}

}  // namespace fm::tokenizer
