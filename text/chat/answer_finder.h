// Where the answers of one conversation stand in its texts (docs/chat.md, "What is trained").
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/chat/prefixes.h"

namespace fm::chat {

// Longer conversations are rendered in stretches.
inline constexpr std::size_t kShortMessages = 64;

// Invariant: what it keeps follows from the prefixes.
// Thread:    one.
// Lifetime:  the prefixes outlive it.
class AnswerFinder {
 public:
  explicit AnswerFinder(Prefixes& prefixes) : prefixes_(prefixes) {}

  // By answer, each the number of a message and in order: where it stands in `text`, which is the
  // closed text of the first `messages`. nullopt: it does not stand there as the model writes it.
  std::vector<std::optional<jinja::Span>> find(std::span<const std::size_t> answers,
                                               const std::string& text, std::size_t messages);
  std::optional<jinja::Span> find_one(std::size_t answer, const std::string& text,
                                      std::size_t messages);

 private:
  using Spans = std::vector<std::optional<jinja::Span>>;
  // What a template writes around an answer: before it, behind it, and at the end of the whole.
  struct Frame {
    std::string header, closing, ending;
  };
  // A text of some of the messages, of which the last one is an answer or comes before one.
  struct Texts {
    std::string closed, prompt, answered;
  };

  std::optional<jinja::Span> between(const Texts& texts, const std::string& text, bool last) const;
  std::optional<jinja::Span> by_probes(std::size_t index, const std::string& text,
                                       std::size_t messages);
  const Frame& frame();
  std::size_t shared_with_whole(const std::string& text);
  // nullopt: the stretches are not parts of the text.
  std::optional<Spans> by_stretches(std::span<const std::size_t> answers, const std::string& text);

  Prefixes& prefixes_;
  std::optional<Frame> frame_;
  // Of answers that are not in the whole text: how much of it was looked at. They are not in a text
  // either that begins with so much of it.
  std::map<std::size_t, std::size_t> absent_;
};

}  // namespace fm::chat
