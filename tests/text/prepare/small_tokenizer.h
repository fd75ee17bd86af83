// A tokenizer and a chat template whose ids can be counted by hand.
#pragma once

#include <string>
#include <string_view>

namespace fm::prepare {

// Letters, a space and a few merges over GPT-2's alphabet of bytes: a = 0, ..., z = 25, "G with a
// dot" (a space) = 26, "C with a dot" (a line end) = 27, "ab" = 28, "space a" = 29, </s> = 30,
// <|im_start|> = 31, <|im_end|> = 32. <s> = 33 comes before a text.
inline std::string small_tokenizer() {
  std::string vocab;
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    vocab += std::string("\"") + letter + "\": " + std::to_string(letter - 'a') + ", ";
  }
  vocab += R"("\u0120": 26, "\u010a": 27, "ab": 28, "\u0120a": 29)";
  const auto token = [](int id, const std::string& text) {
    return R"({"id": )" + std::to_string(id) + R"(, "content": ")" + text +
           R"(", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,)" +
           R"( "special": true})";
  };
  return R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [)" +
         token(30, "</s>") + "," + token(31, "<|im_start|>") + "," + token(32, "<|im_end|>") + "," +
         token(33, "<s>") +
         R"(], "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                    "use_regex": true},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [33], "tokens": ["<s>"]}}},
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
              "use_regex": true},
  "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "ignore_merges": false, "vocab": {)" +
         vocab + R"(}, "merges": [["a", "b"], ["\u0120", "a"]]}})";
}

// ChatML, as Qwen writes it.
inline constexpr std::string_view kChatMl =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

}  // namespace fm::prepare
