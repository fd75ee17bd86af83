#include "engine/chat_session.h"

#include <algorithm>

#include "core/check.h"

namespace fm::engine {
namespace {

// Positions for the prompt and what may follow it.
std::int64_t positions_for(const CachedModel& model, const Prompt& prompt,
                           const CompletionLimits& limits) {
  const std::int64_t length = std::ssize(prompt.ids);
  FM_USER_CHECK(length < model.max_positions(),
                "a prompt must be shorter than the model's max_position_embeddings; shorten it (",
                length, " tokens, max_position_embeddings=", model.max_positions(), ")");
  return length + std::min(limits.max_new_tokens, model.max_positions() - length);
}

}  // namespace

Sequence start(CachedModel& model, const Prompt& prompt, const CompletionLimits& limits) {
  Sequence sequence{.ids = prompt.ids};
  model.reserve(sequence, positions_for(model, prompt, limits));
  return sequence;
}

void stream(CachedModel& model, Sequence& sequence, Completion& completion,
            const Console& console) {
  Sequence* const one = &sequence;
  while (!completion.done()) {
    console.write(completion.put(model.next_logits({&one, 1}), sequence));
  }
}

ChatSession::ChatSession(CachedModel& model, const ModelText& text, const CompletionLimits& limits,
                         const std::string& system)
    : model_(model), text_(text), limits_(limits) {
  if (!system.empty()) conversation_.messages.push_back(message_of("system", system));
}

void ChatSession::take(const Prompt& prompt) {
  const std::int64_t needed = positions_for(model_, prompt, limits_);
  if (needed > sequence_.capacity) {
    model_.reserve(sequence_, std::min(2 * needed, model_.max_positions()));
  }
  const auto read = sequence_.ids.begin() + sequence_.cached;
  const auto [differs, other] =
      std::mismatch(sequence_.ids.begin(), read, prompt.ids.begin(), prompt.ids.end());
  sequence_.cached = std::min(differs - sequence_.ids.begin(), std::ssize(prompt.ids) - 1);
  sequence_.ids = prompt.ids;
}

void ChatSession::answer(const Console& console) {
  const Prompt prompt = text_.of_conversation(conversation_);
  take(prompt);
  Completion completion(text_, limits_, prompt, answers_++);
  stream(model_, sequence_, completion, console);
  console.write("\n");
  conversation_.messages.push_back(message_of("assistant", completion.text()));
}

void ChatSession::run(const Console& console) {
  while (const std::optional<std::string> line = console.read_line("> ")) {
    if (*line == "/exit") return;
    if (line->empty()) continue;
    conversation_.messages.push_back(message_of("user", *line));
    answer(console);
  }
}

}  // namespace fm::engine
