// A conversation as text, and which of it the assistant wrote (docs/chat.md, "What is trained").
#pragma once

#include <cstddef>
#include <ctime>
#include <span>
#include <string>
#include <vector>

#include "text/chat/conversation.h"
#include "text/chat/model_folder.h"

namespace fm::chat {

struct Sample {
  std::string text;  // to be tokenized as one
  std::vector<jinja::Span>
      answers;          // of the text: what is trained; in order, apart from each other
  bool special_tokens;  // whether the tokenizer adds its own, as BOS: a template wrote them
};

// The conversation as one text, as apply_chat_template makes it; with the header of an answer at
// the end where `generation_prompt`. Throws UserError (11) where the template refuses it.
std::string render(const Conversation& conversation, const ChatFormat& format,
                   bool generation_prompt, std::time_t now);

// The conversation as one sample, or as several: a template may write an answer in another way when
// more turns follow it, and each answer is trained in a text where it stands as the model writes
// it. Throws UserError (11) with `where` before what the template refuses.
std::vector<Sample> samples_of(const Conversation& conversation, const ChatFormat& format,
                               std::time_t now, const std::string& where);

// The prompt with its completion, which ends with `eos_token` where it does not yet.
Sample sample_of(const PromptCompletion& record, const std::string& eos_token);

// By token: whether it is trained, which is where one of its bytes is of an answer. `tokens` are
// the bytes of the sample's text that each token stands for, in order.
std::vector<bool> trained_tokens(const Sample& sample, std::span<const jinja::Span> tokens);

}  // namespace fm::chat
