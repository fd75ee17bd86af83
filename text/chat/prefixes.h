// The texts that the first messages of a conversation have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "text/chat/conversation.h"
#include "text/chat/model_folder.h"

namespace fm::chat {

// Of a text: closed, or with the header of an answer (add_generation_prompt).
enum class RenderMode : std::uint8_t { kClosed, kPrompt };

// Above what a conversation needs whose parts are the beginning of its text.
inline constexpr std::size_t kMostRendered = 1'000'000'000;

// Invariant: of a prefix only what it does not share with the whole text is kept.
// Thread:    one.
// Lifetime:  the conversation and the format outlive it.
class Prefixes {
 public:
  Prefixes(const Conversation& conversation, const ChatFormat& format, std::time_t now)
      : conversation_(conversation), format_(format), now_(now) {}

  const jinja::Values& messages() const { return conversation_.messages; }
  const jinja::Template& used() const;
  // What is never cut.
  std::span<const std::string> tokens() const { return format_.added_tokens; }

  // These throw UserError (11) where the template refuses the messages, and Failure where all
  // texts together are longer than kMostRendered.
  jinja::Rendered render(jinja::Values messages, RenderMode mode);
  std::string text(std::size_t messages, RenderMode mode);

 private:
  struct Kept {
    std::size_t shared;  // bytes of the whole text
    std::string rest;
  };
  std::string render_first(std::size_t messages, RenderMode mode);

  const Conversation& conversation_;
  const ChatFormat& format_;
  std::time_t now_;
  std::size_t rendered_ = 0;  // bytes of all texts
  std::optional<std::string> whole_;
  std::map<std::pair<std::size_t, RenderMode>, Kept> kept_;
  std::size_t kept_bytes_ = 0;
};

// How much two texts have in common at their start, no token and no code point of either cut.
std::size_t common_start(const std::string& left, const std::string& right,
                         std::span<const std::string> tokens);
// The same at their ends, in at most `most` bytes.
std::size_t common_end(const std::string& left, const std::string& right, std::size_t most,
                       std::span<const std::string> tokens);

}  // namespace fm::chat
