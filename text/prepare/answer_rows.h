// Whether data are answers, before any of it is tokenized.
#pragma once

#include <span>
#include <string>

#include "text/data/sample_source.h"
#include "text/prepare/text_recipe.h"

namespace fm::prepare {

// Whether documents mean nothing in parts, because an answer is learnt after its question: the
// first row of every file is a conversation, a prompt with its completion, segments, or ids some of
// which are not trained. `words`, `format` and `rows` as in data::find_data, which throws; of
// `options` the columns do not count.
bool holds_answers(std::span<const std::string> words, data::DataFormat format,
                   const data::RowOptions& rows, const TextOptions& options);

// Whether the first row is a conversation. Throws as data::find_data does, and where the file
// cannot be read.
bool begins_with_chat(std::span<const std::string> words, data::DataFormat format,
                      const data::RowOptions& rows);

}  // namespace fm::prepare
