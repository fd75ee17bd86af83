#include "engine/infer/score_texts.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "text/jinja/json_text.h"

namespace fm::engine {
namespace {

std::string json_line(jinja::Entries fields) {
  return jinja::to_json(jinja::make_dict(std::move(fields)), {}) + "\n";
}

}  // namespace

std::vector<Sequence> read_sequences(const CachedModel& model, const ModelText& text,
                                     const std::string& path) {
  std::vector<Sequence> sequences;
  for (const TextLine& line : read_texts(path)) {
    sequences.push_back({.ids = text.encode(line.text)});
    const std::int64_t length = std::ssize(sequences.back().ids);
    FM_DATA_CHECK(length <= model.max_positions(), line.where,
                  ": a text must be no longer than the model's max_position_embeddings; cut it, no "
                  "text of the file was scored (",
                  length, " tokens, max_position_embeddings=", model.max_positions(), ")");
  }
  return sequences;
}

void score_texts(CachedModel& model, std::vector<Sequence> sequences,
                 const std::function<void(const std::string&)>& write) {
  double total = 0.0;
  std::int64_t tokens = 0;
  std::int64_t number = 0;
  for (Sequence& sequence : sequences) {
    ++number;
    const std::int64_t length = std::ssize(sequence.ids);
    const std::int64_t counted = std::max<std::int64_t>(length - 1, 0);
    double logprob = 0.0;
    if (counted > 0) {
      model.reserve(sequence, length);
      logprob = model.log_probability(sequence);
    }
    sequence = {};
    FM_DATA_CHECK(std::isfinite(logprob),
                  "the weights must give finite logits; use another checkpoint (text ", number,
                  " of the file)");
    write(json_line({{"logprob", logprob}, {"tokens", counted}}));
    total += logprob;
    tokens += counted;
  }
  FM_DATA_CHECK(tokens > 0, "texts of two tokens or more are required to score them");
  write(json_line({{"perplexity", std::exp(-total / static_cast<double>(tokens))},
                   {"logprob", total},
                   {"tokens", tokens}}));
}

}  // namespace fm::engine
