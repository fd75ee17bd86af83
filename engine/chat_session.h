// One sequence at a time: a prompt that is continued, and a conversation.
#pragma once

#include <string>

#include "engine/completion.h"
#include "engine/generate.h"

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

  // Reads questions until there is none, or one is /exit.
  void run(const Console& console);

 private:
  void answer(const Console& console);
  // The prompt becomes the sequence; what was read of it already stays read.
  void take(const Prompt& prompt);

  CachedModel& model_;
  const ModelText& text_;
  const CompletionLimits& limits_;
  chat::Conversation conversation_;
  Sequence sequence_;
  std::int64_t answers_ = 0;
};

}  // namespace fm::engine
