// The parts that a tokenizer is made of, whatever file they come from.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pieces.h"
#include "text/tokenizer/post_processor.h"
#include "text/tokenizer/token_decoder.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/unigram.h"
#include "text/tokenizer/vocabulary.h"

namespace fm::tokenizer {

// What one call needs, used again from call to call.
struct Workspace {
  std::vector<TextPart> parts;
  std::vector<TextPart> inner_parts;
  Normalizing normalizing;
  Pieces pieces;
  WordSpace words;
  UnigramSpace unigram;
};

// Appends the ids of one piece.
using EncodePiece =
    std::function<void(std::string_view piece, Workspace& space, std::vector<TokenId>& ids)>;

struct TokenizerParts {
  std::string where;  // the main file, for messages
  std::shared_ptr<Vocabulary> vocabulary = std::make_shared<Vocabulary>();
  AddedTokens added;
  std::vector<NormalizeStep> normalizer;
  std::vector<SplitStep> pre_tokenizer;
  EncodePiece model;
  Template post_processor;  // no parts: the text as it is
  std::vector<DecodeStep> decoder;
  SpecialIds special_ids;
  std::string identity;
  std::vector<std::string> files;
};

}  // namespace fm::tokenizer
