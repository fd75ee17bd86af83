// How likely a model finds texts.
#pragma once

#include <functional>
#include <string>

#include "engine/cached_model.h"
#include "engine/model_text.h"

namespace fm::engine {

// A JSON line per text of the file, {"logprob", "tokens"}: the sum of the logarithms of the
// probabilities of all its tokens but the first, which nothing stands before, and how many these
// are. Then {"perplexity", "logprob", "tokens"} of all: perplexity = exp(-logprob / tokens). Throws
// UserError (10, 11) with the number of the text.
void score_texts(CachedModel& model, const ModelText& text, const std::string& path,
                 const std::function<void(const std::string&)>& write);

}  // namespace fm::engine
