// From files to the parts of a tokenizer; each function reads one kind of file.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer/parts.h"
#include "text/tokenizer/tokenizer_file.h"

namespace fm::tokenizer {

using Parts = std::unique_ptr<TokenizerParts>;

// `text` is the content of tokenizer.json at `path`.
Parts read_tokenizer_json(const std::string& path, const std::string& text);

// vocab.json and merges.txt, two texts. `config` is null or tokenizer_config.json, whose
// tokenizer_class decides about the pattern; `where` is the folder.
struct VocabAndMerges {
  std::string vocab;
  std::string merges;
};
Parts read_vocab_and_merges(const std::string& where, const VocabAndMerges& texts,
                            const JsonTree* config);

// `bytes` of SentencePiece's tokenizer.model at `path`. `config` is null or tokenizer_config.json,
// which says where transformers puts a space before a text.
Parts read_sentencepiece(const std::string& path, const std::string& bytes, const JsonTree* config);

// All components but added tokens, from the object of a tokenizer.json and the lists of its model.
void put_components(TokenizerParts& parts, const TokenizerFile& file);

}  // namespace fm::tokenizer
