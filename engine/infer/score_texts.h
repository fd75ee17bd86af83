// How likely a model finds texts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/infer/cached_model.h"
#include "engine/infer/model_text.h"

namespace fm::engine {

// The texts of a file. Throws UserError (11) with file and line, also where the model reads no
// texts of that length.
std::vector<Sequence> read_sequences(const CachedModel& model, const ModelText& text,
                                     const std::string& path);

// A JSON line per text, {"logprob", "tokens"}: the sum of the logarithms of the probabilities of
// all its tokens but the first, which nothing stands before, and how many these are. Then
// {"perplexity", "logprob", "tokens"} of all: perplexity = exp(-logprob / tokens). Throws UserError
// (11) with the number of the text.
void score_texts(CachedModel& model, std::vector<Sequence> sequences,
                 const std::function<void(const std::string&)>& write);

}  // namespace fm::engine
