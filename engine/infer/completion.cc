#include "engine/infer/completion.h"

#include <algorithm>

namespace fm::engine {
namespace {

// The last ids of a prompt that the text behind them may depend on: parts of a character, a space.
constexpr std::ptrdiff_t kContext = 8;

// Bytes at the end of `text` that may be the start of `stop`.
std::size_t may_become(const std::string& text, const std::string& stop) {
  std::size_t length = std::min(text.size(), stop.size() - 1);
  while (length > 0 && text.compare(text.size() - length, length, stop, 0, length) != 0) --length;
  return length;
}

}  // namespace

std::string StopSearch::put(const std::string& piece) {
  if (found_) return "";
  waiting_ += piece;
  std::size_t first = std::string::npos;
  std::size_t held = 0;
  for (const std::string& stop : stops_) {
    first = std::min(first, waiting_.find(stop));
    held = std::max(held, may_become(waiting_, stop));
  }
  found_ = first != std::string::npos;
  std::string sure = waiting_.substr(0, found_ ? first : waiting_.size() - held);
  waiting_ = found_ ? "" : waiting_.substr(sure.size());
  return sure;
}

Completion::Completion(const ModelText& text, const CompletionLimits& limits, const Prompt& prompt,
                       std::int64_t number)
    : model_text_(&text),
      limits_(&limits),
      number_(number),
      decoder_(text.tokenizer()),
      stops_(limits.stops),
      done_(limits.max_new_tokens == 0) {
  if (prompt.answers) return;
  const auto context = std::min(std::ssize(prompt.ids), kContext);
  for (auto id = prompt.ids.end() - context; id != prompt.ids.end(); ++id) decoder_.put(*id);
}

std::string Completion::put(std::span<const float> logits_V, Sequence& sequence) {
  const std::int32_t id = sample(logits_V, sequence.ids, limits_->sampler,
                                 {.sequence = number_, .step = std::ssize(ids_)});
  ids_.push_back(id);
  whole_ = model_text_->ends(id);
  std::string sure;
  if (!whole_) {
    sequence.ids.push_back(id);
    sure = stops_.put(decoder_.put(id));
    whole_ = stops_.found();
  }
  done_ = whole_ || std::ssize(ids_) == limits_->max_new_tokens ||
          std::ssize(sequence.ids) == sequence.capacity;
  if (done_ && !stops_.found()) {
    sure += stops_.put(decoder_.finish());
    if (!stops_.found()) sure += stops_.finish();
  }
  text_ += sure;
  return sure;
}

}  // namespace fm::engine
