#include "text/chat/prefixes.h"

#include <algorithm>

namespace fm::chat {
namespace {

// Where a token that must not be cut at `at` begins; `at` where there is none.
std::size_t start_of_token(const std::string& text, std::size_t at,
                           std::span<const std::string> tokens) {
  std::size_t start = at;
  for (const std::string& token : tokens) {
    for (std::size_t inside = 1; inside < token.size() && inside <= at; ++inside) {
      if (text.compare(at - inside, token.size(), token) == 0) start = std::min(start, at - inside);
    }
  }
  return start;
}

// Where it ends.
std::size_t end_of_token(const std::string& text, std::size_t at,
                         std::span<const std::string> tokens) {
  std::size_t end = at;
  for (const std::string& token : tokens) {
    for (std::size_t inside = 1; inside < token.size() && inside <= at; ++inside) {
      if (text.compare(at - inside, token.size(), token) == 0)
        end = std::max(end, at - inside + token.size());
    }
  }
  return end;
}

bool inside_point(const std::string& text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

}  // namespace

std::size_t common_start(const std::string& left, const std::string& right,
                         std::span<const std::string> tokens) {
  const auto pair = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
  auto at = static_cast<std::size_t>(pair.first - left.begin());
  while (at > 0 && (inside_point(left, at) || inside_point(right, at))) --at;
  return std::min(start_of_token(left, at, tokens), start_of_token(right, at, tokens));
}

std::size_t common_end(const std::string& left, const std::string& right, std::size_t most,
                       std::span<const std::string> tokens) {
  const auto pair = std::mismatch(left.rbegin(), left.rend(), right.rbegin(), right.rend());
  std::size_t same = std::min(most, static_cast<std::size_t>(pair.first - left.rbegin()));
  while (same > 0 && inside_point(left, left.size() - same)) --same;
  const auto uncut = [&](const std::string& text) {
    return text.size() - end_of_token(text, text.size() - same, tokens);
  };
  return std::min(uncut(left), uncut(right));
}

const jinja::Template& Prefixes::used() const {
  const bool tools = !conversation_.tools.is<jinja::None>() && format_.with_tools;
  return tools ? *format_.with_tools : format_.plain;
}

jinja::Rendered Prefixes::render(jinja::Values messages, RenderMode mode) {
  if (rendered_ > kMostRendered)
    jinja::fail(
        "the template writes the beginning of a long conversation in another way than the whole, ",
        "so that each answer must be looked for by itself; split the conversation, or use a ",
        "template with {% generation %} (", conversation_.messages.size(), " messages)");
  jinja::Entries variables = format_.tokens;
  for (const auto& [name, value] : conversation_.variables)
    jinja::set_entry(variables, name, value);
  jinja::set_entry(variables, "messages", jinja::make_list(std::move(messages)));
  jinja::set_entry(variables, "tools", conversation_.tools);
  jinja::set_entry(variables, "documents", jinja::None{});
  jinja::set_entry(variables, "add_generation_prompt", mode == RenderMode::kPrompt);
  jinja::Rendered rendered = used().render(variables, now_);
  rendered_ += rendered.text.size();
  return rendered;
}

std::string Prefixes::render_first(std::size_t messages, RenderMode mode) {
  const auto begin = conversation_.messages.begin();
  return render({begin, begin + static_cast<std::ptrdiff_t>(messages)}, mode).text;
}

std::string Prefixes::text(std::size_t messages, RenderMode mode) {
  if (!whole_) whole_ = render_first(conversation_.messages.size(), RenderMode::kClosed);
  if (messages == conversation_.messages.size() && mode == RenderMode::kClosed) return *whole_;
  const auto found = kept_.find({messages, mode});
  if (found != kept_.end()) return whole_->substr(0, found->second.shared) + found->second.rest;
  std::string text = render_first(messages, mode);
  const auto pair = std::mismatch(text.begin(), text.end(), whole_->begin(), whole_->end());
  const auto shared = static_cast<std::size_t>(pair.first - text.begin());
  if (kept_bytes_ + text.size() - shared <= jinja::kMostTextBytes) {
    kept_bytes_ += text.size() - shared;
    kept_[{messages, mode}] = {shared, text.substr(shared)};
  }
  return text;
}

}  // namespace fm::chat
