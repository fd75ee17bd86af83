#include "engine/infer/chat_session.h"

#include <algorithm>

#include "core/check.h"

namespace fm::engine {
namespace {

constexpr std::int64_t kMostTokenBytes = 64;
constexpr std::int64_t kAnswerShare = 4;  // of the positions, a quarter is for an answer

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
  first_ = conversation_.messages.size();
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

std::optional<Prompt> ChatSession::ask(const std::string& question, const Console& console) {
  const std::int64_t most = model_.max_positions();
  chat::Conversation alone = conversation_;
  alone.messages.resize(first_);
  alone.messages.push_back(message_of("user", question));
  // No token of a text has so many bytes, so that a file that is put in is not tokenized.
  const bool fits = std::ssize(question) / kMostTokenBytes < most &&
                    std::ssize(text_.of_conversation(alone).ids) < most;
  if (!fits) {
    console.note(core::concat("this question is too long and is left out; ask a shorter one (",
                              question.size(), " bytes, max_position_embeddings=", most, ")"));
    return std::nullopt;
  }
  conversation_.messages.push_back(message_of("user", question));
  const std::int64_t room =
      std::max<std::int64_t>(1, std::min(limits_.max_new_tokens, most / kAnswerShare));
  std::optional<Prompt> prompt;
  std::size_t dropped = 0;
  while (true) {
    prompt = text_.of_conversation(conversation_);
    const bool has_older = conversation_.messages.size() > first_ + 1;
    if (!has_older || std::ssize(prompt->ids) + room <= most) break;
    const auto oldest = conversation_.messages.begin() + static_cast<std::ptrdiff_t>(first_);
    conversation_.messages.erase(oldest, oldest + 2);  // a question and its answer
    ++dropped;
  }
  if (dropped > 0) {
    console.note(core::concat("the conversation is longer than the model reads: its ", dropped,
                              " oldest questions, with their answers, are left out from here on "
                              "(max_position_embeddings=",
                              most, ")"));
  }
  return prompt;
}

void ChatSession::answer(const Prompt& prompt, const Console& console) {
  take(prompt);
  Completion completion(text_, limits_, prompt, answers_++);
  stream(model_, sequence_, completion, console);
  console.write("\n");
  conversation_.messages.push_back(message_of("assistant", completion.text()));
}

void ChatSession::run(const Console& console) {
  while (const std::optional<std::string> line = console.read_line("> ")) {
    if (*line == "/exit") return;
    if (*line == "/help") {
      console.write("A line is a question; /exit or the end of the input ends the talk.\n");
      continue;
    }
    if (line->empty()) continue;
    if (const std::optional<Prompt> prompt = ask(*line, console)) answer(*prompt, console);
  }
}

}  // namespace fm::engine
