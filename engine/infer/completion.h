// What follows one prompt: ids that are chosen, and their text as far as it is sure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/infer/cached_model.h"
#include "engine/infer/model_text.h"
#include "engine/infer/sampler.h"

namespace fm::engine {

struct CompletionLimits {
  std::int64_t max_new_tokens = 200;
  std::vector<std::string> stops = {};  // texts that end it; none of them is part of it
  SamplerOptions sampler = {};
};

// Finds the stop texts in a text that comes piece by piece.
class StopSearch {
 public:
  explicit StopSearch(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // What is sure of the text: up to a stop, and without an end that may become one.
  std::string put(const std::string& piece);
  // What waited, at the end.
  std::string finish() { return std::exchange(waiting_, {}); }
  bool found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  std::string waiting_;
  bool found_ = false;
};

// Invariant: text() is what put() and the constructor's prompt led to, and has no stop in it.
// Thread:    one thread.
// Lifetime:  model text and limits outlive it.
class Completion {
 public:
  // `number` of the prompt: of equal prompts each goes its own way. `room`: positions that are left
  // for new tokens.
  Completion(const ModelText& text, const CompletionLimits& limits, const Prompt& prompt,
             std::int64_t number);

  // Chooses what follows the sequence and appends it, unless that is the end; returns new text.
  std::string put(std::span<const float> logits_V, Sequence& sequence);
  bool done() const { return done_; }
  // Ended by a stop or an end token, not by a limit.
  bool whole() const { return whole_; }
  const std::string& text() const { return text_; }
  // Those that were chosen, an end token included.
  const std::vector<std::int32_t>& ids() const { return ids_; }

 private:
  const ModelText* model_text_;
  const CompletionLimits* limits_;
  std::int64_t number_;
  tokenizer::StreamDecoder decoder_;
  StopSearch stops_;
  std::string text_;
  std::vector<std::int32_t> ids_;
  bool done_ = false;
  bool whole_ = false;
};

}  // namespace fm::engine
