// The JSON of a tokenizer: components as a tree, and the long lists of a model, which no tree could
// hold cheaply.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json_tree.h"

namespace fm::tokenizer {

using core::JsonKind;
using core::JsonTree;

// `model.vocab` and `model.merges` of a tokenizer.json, in the file's order.
struct ModelLists {
  std::vector<std::pair<std::string, std::int64_t>> ids;    // {"token": id}
  std::vector<std::pair<std::string, double>> scores;       // [["piece", score]]
  std::vector<std::pair<std::string, std::string>> merges;  // ["a b"] or [["a", "b"]]
};

struct TokenizerFile {
  JsonTree root;  // without the lists; numbers as serde_json reads them
  ModelLists lists;
};

// `text` is the content of `file_name`. Throws UserError (11) with the byte for what is no JSON.
TokenizerFile read_tokenizer_file(std::string_view text, const std::string& file_name);
// `text` is a vocab.json: one object {"token": id}.
std::vector<std::pair<std::string, std::int64_t>> read_vocab_json(const std::string& text,
                                                                  const std::string& file_name);

}  // namespace fm::tokenizer
