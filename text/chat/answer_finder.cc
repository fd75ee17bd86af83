#include "text/chat/answer_finder.h"

#include <algorithm>

namespace fm::chat {
namespace {

// Contents that begin and end unlike each other, so that no text shares both beginnings.
constexpr const char* kProbes[] = {"[[probe]]", "zzprobezz"};

jinja::Value message_of(const char* role, const char* content) {
  return jinja::make_dict({{"role", role}, {"content", content}});
}

// Messages behind each stretch's first one, and as many as it may have.
constexpr std::size_t kStretch = 16;
constexpr std::size_t kLongestStretch = 64;

// What of a text an answer's place depends on, behind the texts that it is compared with.
std::size_t slack_of(std::span<const std::string> tokens) {
  std::size_t slack = 8;
  for (const std::string& token : tokens) slack = std::max(slack, token.size());
  return slack;
}

const std::string& role_of(const jinja::Value& message) {
  return *find_field(message, "role")->text();
}

// Messages [0, head) stand before every stretch but the first; stretches begin at `starts`.
struct Seams {
  std::size_t head;
  std::vector<std::size_t> starts;
};

// Stretches follow the head where the same roles meet as at the head's end, and an even number of
// messages behind it, since templates demand that turns alternate.
std::optional<Seams> seams_behind(std::size_t head, const jinja::Values& messages) {
  Seams seams{head, {}};
  std::size_t last = 0;
  for (std::size_t at = head + 2; at < messages.size(); at += 2) {
    if (at - last > kLongestStretch) return std::nullopt;
    const bool alike = role_of(messages[at]) == role_of(messages[head]) &&
                       role_of(messages[at - 1]) == role_of(messages[head - 1]);
    if (!alike || at - last < kStretch) continue;
    seams.starts.push_back(at);
    last = at;
  }
  return seams;
}

// Before a user's message at best, because templates rewrite what is not followed by one.
std::optional<Seams> find_seams(const jinja::Values& messages) {
  for (const bool users : {true, false}) {
    for (std::size_t head = 1; head < std::min(kStretch, messages.size()); ++head) {
      if (users && role_of(messages[head]) != "user") continue;
      if (auto seams = seams_behind(head, messages)) return seams;
    }
  }
  return std::nullopt;
}

// Messages [from, to) behind the head.
jinja::Values window(const jinja::Values& messages, std::size_t head, std::size_t from,
                     std::size_t to) {
  const auto at = [&](std::size_t index) {
    return messages.begin() + static_cast<std::ptrdiff_t>(index);
  };
  jinja::Values some(messages.begin(), at(from == 0 ? 0 : head));
  some.insert(some.end(), at(from), at(to));
  return some;
}

// Of the header of an answer as much as the text has in front of `behind`: where it ends. A prompt
// may go on behind the header ("<think>"), which the text does not have then.
std::optional<std::size_t> end_of_header(const std::string& text, const std::string& header,
                                         std::size_t behind) {
  for (std::size_t size = header.size(); size > header.size() / 2; --size) {
    if (size > behind) continue;
    const std::size_t at = text.rfind(header.substr(0, size), behind - size);
    if (at != std::string::npos) return at + size;
  }
  return std::nullopt;
}

}  // namespace

std::optional<jinja::Span> AnswerFinder::between(const Texts& texts, const std::string& text,
                                                 bool last) const {
  // What stands before the answer, and what a template writes at the end of a conversation.
  const std::size_t history = common_start(texts.closed, texts.prompt, prefixes_.tokens());
  const std::string ending = texts.closed.substr(history);
  const std::size_t begin = common_start(texts.prompt, text, prefixes_.tokens());
  if (begin < history) return std::nullopt;
  if (last) return jinja::Span{begin, text.size()};
  const std::size_t end = common_start(texts.answered, text, prefixes_.tokens());
  if (end < begin || texts.answered.substr(end) != ending) return std::nullopt;
  return jinja::Span{begin, end};
}

std::optional<jinja::Span> AnswerFinder::find_one(std::size_t index, const std::string& text,
                                                  std::size_t messages) {
  const bool last = index + 1 == messages;
  std::optional<Texts> texts;
  try {
    // Templates look at the first message, so there must be one.
    if (index > 0)
      texts = Texts{prefixes_.text(index, RenderMode::kClosed),
                    prefixes_.text(index, RenderMode::kPrompt),
                    last ? "" : prefixes_.text(index + 1, RenderMode::kClosed)};
  } catch (const core::UserError&) {
    texts.reset();  // the template takes the whole only
  }
  if (!texts) return by_probes(index, text, messages);
  const std::optional<jinja::Span> found = between(*texts, text, last);
  if (!found && messages == prefixes_.messages().size())
    absent_[index] = std::max(texts->prompt.size(), texts->answered.size());
  return found;
}

// Of a question and an answer that the conversation does not have.
const AnswerFinder::Frame& AnswerFinder::frame() {
  if (frame_) return *frame_;
  frame_.emplace();
  try {
    const jinja::Values question = {message_of("user", "x")};
    const std::string closed = prefixes_.render(question, RenderMode::kClosed).text;
    const std::string prompt = prefixes_.render(question, RenderMode::kPrompt).text;
    const std::size_t history = common_start(closed, prompt, prefixes_.tokens());
    frame_->ending = closed.substr(history);
    frame_->header = prompt.substr(history);
    const std::string probe = kProbes[0];
    const std::string answered =
        prefixes_.render({question[0], message_of("assistant", kProbes[0])}, RenderMode::kClosed)
            .text;
    const std::size_t at = answered.find(probe);
    if (at == std::string::npos || !answered.ends_with(frame_->ending)) return *frame_;
    const std::size_t behind = at + probe.size();
    frame_->closing = answered.substr(behind, answered.size() - frame_->ending.size() - behind);
  } catch (const core::UserError&) {
    // Then the answer's content alone is known.
  }
  return *frame_;
}

// Where the text differs when the answer says something else. The header in front of that is not
// the answer's, what closes the turn is.
std::optional<jinja::Span> AnswerFinder::by_probes(std::size_t index, const std::string& text,
                                                   std::size_t messages) {
  const Frame& around = frame();
  std::size_t begin = text.size();
  std::size_t behind = text.size();
  for (const char* const probe : kProbes) {
    jinja::Values changed = window(prefixes_.messages(), 0, 0, messages);
    changed[index] = message_of("assistant", probe);
    const std::string other = prefixes_.render(std::move(changed), RenderMode::kClosed).text;
    begin = std::min(begin, common_start(text, other, prefixes_.tokens()));
    behind = std::min(behind, common_end(text, other, text.size() - begin, prefixes_.tokens()));
  }
  std::size_t end = text.size() - behind;
  if (const auto start = end_of_header(text, around.header, begin)) {
    // Of this turn, not of one before it.
    const bool other_turn = text.substr(*start, begin - *start).find(around.closing) < begin;
    if (index == 0 || !other_turn) begin = *start;
  }
  if (index + 1 == messages) return jinja::Span{begin, text.size()};
  std::optional<std::string> answered;
  try {
    answered = prefixes_.text(index + 1, RenderMode::kClosed);
  } catch (const core::UserError&) {
    if (text.compare(end, around.closing.size(), around.closing) == 0) end += around.closing.size();
    return jinja::Span{begin, std::max(begin, end)};
  }
  end = common_start(*answered, text, prefixes_.tokens());
  if (end < begin || answered->substr(end) != around.ending) return std::nullopt;
  return jinja::Span{begin, end};
}

// The template renders each stretch behind the head as it stands in the text, so that a few
// messages are rendered for an answer in the place of all before it. Each stretch must be the part
// of the text that follows the stretch before it.
std::optional<AnswerFinder::Spans> AnswerFinder::by_stretches(std::span<const std::size_t> answers,
                                                              const std::string& text) {
  const jinja::Values& messages = prefixes_.messages();
  const std::optional<Seams> seams = find_seams(messages);
  if (!seams) return std::nullopt;
  const auto render = [&](std::size_t from, std::size_t to, RenderMode mode) {
    return prefixes_.render(window(messages, seams->head, from, to), mode).text;
  };
  const auto history = [&](std::size_t from, std::size_t to, std::string& closed) {
    closed = render(from, to, RenderMode::kClosed);
    return common_start(closed, render(from, to, RenderMode::kPrompt), prefixes_.tokens());
  };
  const std::size_t slack = slack_of(prefixes_.tokens());
  std::string closed;
  const std::size_t head_bytes = history(0, seams->head, closed);
  Spans found;
  std::string before;      // of the stretch's own text, up to where the next message begins
  std::size_t anchor = 0;  // that place in the whole text
  std::size_t from = 0;
  std::vector<std::size_t> ends = seams->starts;
  ends.push_back(messages.size() - 1);
  for (const std::size_t end : ends) {
    const std::size_t known = history(from, end + 1, closed);
    const std::string own = before + text.substr(anchor, closed.size() + slack);
    for (; found.size() < answers.size() && answers[found.size()] <= end;) {
      const std::size_t index = answers[found.size()];
      const bool last = index + 1 == messages.size();
      if (index == 0) {
        found.emplace_back(by_probes(0, text, messages.size()));
        continue;
      }
      const Texts texts = {render(from, index, RenderMode::kClosed),
                           render(from, index, RenderMode::kPrompt),
                           last ? "" : render(from, index + 1, RenderMode::kClosed)};
      std::optional<jinja::Span> span = between(texts, own, last);
      const std::size_t shift = anchor - before.size();  // modulo 2^64: `before` may be longer
      if (span) {
        span->begin += shift;
        span->end = last ? text.size() : span->end + shift;
      } else {
        absent_[index] = shift + std::max(texts.prompt.size(), texts.answered.size());
      }
      found.push_back(span);
    }
    if (end + 1 == messages.size()) break;
    if (known < before.size() || own.compare(0, known, closed, 0, known) != 0) return std::nullopt;
    anchor += known - before.size();
    from = end;
    const std::size_t bytes = history(from, end + 1, closed);
    if (bytes < head_bytes) return std::nullopt;
    const std::size_t seam = bytes - head_bytes;  // of the message at the seam
    if (anchor < seam || text.compare(anchor - seam, seam, closed, head_bytes, seam) != 0)
      return std::nullopt;
    before = closed.substr(0, bytes);
  }
  return found;
}

// How much of the whole text a text begins with, but for what decides where a token ends.
std::size_t AnswerFinder::shared_with_whole(const std::string& text) {
  const std::string whole = prefixes_.text(prefixes_.messages().size(), RenderMode::kClosed);
  const auto pair = std::mismatch(text.begin(), text.end(), whole.begin(), whole.end());
  const auto shared = static_cast<std::size_t>(pair.first - text.begin());
  return shared - std::min(shared, slack_of(prefixes_.tokens()));
}

std::vector<std::optional<jinja::Span>> AnswerFinder::find(std::span<const std::size_t> answers,
                                                           const std::string& text,
                                                           std::size_t messages) {
  if (messages > kShortMessages && messages == prefixes_.messages().size()) {
    try {
      if (auto found = by_stretches(answers, text)) return std::move(*found);
    } catch (const core::UserError&) {
      // The template takes the whole only.
    }
    absent_.clear();
  }
  Spans found;
  const std::size_t reach = absent_.empty() ? 0 : shared_with_whole(text);
  for (const std::size_t index : answers) {
    const auto absent = absent_.find(index);
    const bool known = index + 1 < messages && absent != absent_.end() && absent->second <= reach;
    found.push_back(known ? std::nullopt : find_one(index, text, messages));
  }
  return found;
}

}  // namespace fm::chat
