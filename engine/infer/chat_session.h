// One sequence at a time: a prompt that is continued, and a conversation.
#pragma once

#include <optional>
#include <string>

#include "engine/infer/completion.h"
#include "engine/infer/generate.h"

namespace fm::engine {

// The prompt with a cache for what may follow. Throws UserError (10) where the model reads no
// prompts of that length.
Sequence start(CachedModel& model, const Prompt& prompt, const CompletionLimits& limits);

// Until the completion is done; its text goes to the console as it comes.
void stream(CachedModel& model, Sequence& sequence, Completion& completion, const Console& console);

// Questions of a person and answers of the model. What both said stays in the cache.
//
// Thread:   one thread.
// Lifetime: what it was made of outlives it.
class ChatSession {
 public:
  ChatSession(CachedModel& model, const ModelText& text, const CompletionLimits& limits,
              const std::string& system);

  // Reads questions until there is none, or one is /exit. Where the talk grows past what the model
  // reads, the oldest questions and answers are left out, and a note says so; a question that is
  // too long alone is left out itself.
  void run(const Console& console);

 private:
  void answer(const Prompt& prompt, const Console& console);
  // Adds the question; nullopt: it is too long, and the talk is as it was.
  std::optional<Prompt> ask(const std::string& question, const Console& console);
  // The prompt becomes the sequence; what was read of it already stays read.
  void take(const Prompt& prompt);

  CachedModel& model_;
  const ModelText& text_;
  const CompletionLimits& limits_;
  chat::Conversation conversation_;
  std::size_t first_ = 0;  // message behind the system's
  Sequence sequence_;
  std::int64_t answers_ = 0;
};

}  // namespace fm::engine
