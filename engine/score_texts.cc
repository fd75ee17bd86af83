#include "engine/score_texts.h"

#include <algorithm>
#include <cmath>

#include "chat/json_text.h"
#include "core/check.h"

namespace fm::engine {
namespace {

std::string json_line(chat::Entries fields) {
  return chat::to_json(chat::make_dict(std::move(fields)), {}) + "\n";
}

}  // namespace

void score_texts(CachedModel& model, const ModelText& text, const std::string& path,
                 const std::function<void(const std::string&)>& write) {
  double total = 0.0;
  std::int64_t tokens = 0;
  std::int64_t number = 0;
  for (const std::string& each : read_texts(path)) {
    ++number;
    Sequence sequence{.ids = text.encode(each)};
    const std::int64_t length = std::ssize(sequence.ids);
    FM_USER_CHECK(length <= model.max_positions(),
                  "a text must be no longer than the model's max_position_embeddings; cut it (",
                  path, ": text ", number, " of ", length,
                  " tokens, max_position_embeddings=", model.max_positions(), ")");
    const std::int64_t counted = std::max<std::int64_t>(length - 1, 0);
    double logprob = 0.0;
    if (counted > 0) {
      model.reserve(sequence, length);
      logprob = model.log_probability(sequence);
    }
    FM_DATA_CHECK(std::isfinite(logprob),
                  "the weights must give finite logits; use another checkpoint (", path, ": text ",
                  number, ")");
    write(json_line({{"logprob", logprob}, {"tokens", counted}}));
    total += logprob;
    tokens += counted;
  }
  FM_DATA_CHECK(tokens > 0, "texts of two tokens or more are required to score them (", path, ")");
  write(json_line({{"perplexity", std::exp(-total / static_cast<double>(tokens))},
                   {"logprob", total},
                   {"tokens", tokens}}));
}

}  // namespace fm::engine
