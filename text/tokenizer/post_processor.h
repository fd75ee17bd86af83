// What a post-processor of tokenizer.json puts before and behind a text.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/tokenizer_file.h"
#include "text/tokenizer/vocabulary.h"

namespace fm::tokenizer {

// A template of one sequence: before, the text, behind. A part without `ids` is the text.
struct TemplatePart {
  std::vector<TokenId> ids;
  bool is_text = false;
};
using Template = std::vector<TemplatePart>;

// "[CLS] $A [SEP]" of a TemplateProcessing, Bert- or RobertaProcessing, alone or in a Sequence;
// ByteLevel changes no ids. No parts: the text as it is. Throws UserError (11) naming what is not
// supported.
Template read_post_processor(const JsonTree* settings);

}  // namespace fm::tokenizer
