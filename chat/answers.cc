#include "chat/answers.h"

#include <algorithm>
#include <map>
#include <optional>

namespace fm::chat {
namespace {

enum class Ending : std::uint8_t { kClosed, kPrompt };

bool is_answer(const Value& message) {
  const Value* role = message.dict()->find("role");
  return role != nullptr && role->text() != nullptr && *role->text() == "assistant";
}

// Renders the first messages of one conversation, each ending once.
class Prefixes {
 public:
  Prefixes(const Conversation& conversation, const ChatFormat& format, std::time_t now)
      : conversation_(conversation), format_(format), now_(now) {}

  const Template& used() const {
    const bool tools = !conversation_.tools.is<None>() && format_.with_tools;
    return tools ? *format_.with_tools : format_.plain;
  }

  Rendered render(std::size_t messages, Ending ending) const {
    const auto end = conversation_.messages.begin() + static_cast<std::ptrdiff_t>(messages);
    Entries variables = format_.tokens;
    for (const auto& [name, value] : conversation_.variables) set_entry(variables, name, value);
    set_entry(variables, "messages", make_list({conversation_.messages.begin(), end}));
    set_entry(variables, "tools", conversation_.tools);
    set_entry(variables, "documents", None{});
    set_entry(variables, "add_generation_prompt", ending == Ending::kPrompt);
    return used().render(variables, now_);
  }

  const std::string& text(std::size_t messages, Ending ending) {
    std::optional<std::string>& kept = kept_[{messages, ending}];
    if (!kept) kept = render(messages, ending).text;
    return *kept;
  }

 private:
  const Conversation& conversation_;
  const ChatFormat& format_;
  std::time_t now_;
  std::map<std::pair<std::size_t, Ending>, std::optional<std::string>> kept_;
};

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

// How much two texts have in common at their start, no token and no code point of either cut.
std::size_t common_start(const std::string& left, const std::string& right,
                         std::span<const std::string> tokens) {
  const auto pair = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
  auto at = static_cast<std::size_t>(pair.first - left.begin());
  const auto inside_point = [&](const std::string& text) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  while (at > 0 && (inside_point(left) || inside_point(right))) --at;
  return std::min(start_of_token(left, at, tokens), start_of_token(right, at, tokens));
}

// Finds the answers of one conversation in its texts.
class AnswerFinder {
 public:
  AnswerFinder(Prefixes& prefixes, const ChatFormat& format)
      : prefixes_(prefixes), tokens_(format.added_tokens) {}

  // The answer that is message `index` in `text`, which has `messages`; nullopt: it does not stand
  // there as the model writes it.
  std::optional<Span> find(std::size_t index, const std::string& text, std::size_t messages) {
    const std::string& closed = prefixes_.text(index, Ending::kClosed);
    const std::string& prompt = prefixes_.text(index, Ending::kPrompt);
    // What stands before the answer, and what a template writes at the end of a conversation.
    const std::size_t history = common_start(closed, prompt, tokens_);
    const std::string farewell = closed.substr(history);
    const std::size_t begin = common_start(prompt, text, tokens_);
    if (begin < history) return std::nullopt;
    if (messages == index + 1) return Span{begin, text.size()};
    const std::string& answered = prefixes_.text(index + 1, Ending::kClosed);
    const std::size_t end = common_start(answered, text, tokens_);
    if (end < begin || answered.substr(end) != farewell) return std::nullopt;
    return Span{begin, end};
  }

 private:
  Prefixes& prefixes_;
  std::span<const std::string> tokens_;
};

// Spans in order, those that touch or overlap made one, empty ones left out.
std::vector<Span> joined(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(),
            [](const Span& left, const Span& right) { return left.begin < right.begin; });
  std::vector<Span> kept;
  for (const Span& span : spans) {
    if (span.begin >= span.end) continue;
    if (!kept.empty() && span.begin <= kept.back().end) {
      kept.back().end = std::max(kept.back().end, span.end);
    } else {
      kept.push_back(span);
    }
  }
  return kept;
}

// By growing prefixes: the whole text first, then a text for the last answer that has none yet.
std::vector<Sample> grow(Prefixes& prefixes, const Conversation& conversation,
                         const ChatFormat& format) {
  AnswerFinder finder(prefixes, format);
  std::vector<std::size_t> waiting;
  for (std::size_t at = conversation.prompt; at < conversation.messages.size(); ++at) {
    if (is_answer(conversation.messages[at])) waiting.push_back(at);
  }
  std::vector<Sample> samples;
  std::size_t messages = conversation.messages.size();
  do {
    const std::string& text = prefixes.text(messages, Ending::kClosed);
    Sample sample{text, {}, false};
    std::vector<std::size_t> later;
    for (const std::size_t index : waiting) {
      const std::optional<Span> found =
          index < messages ? finder.find(index, text, messages) : std::nullopt;
      if (found) {
        sample.answers.push_back(*found);
      } else {
        later.push_back(index);
      }
    }
    if (later.size() == waiting.size() && !later.empty() && later.back() + 1 == messages)
      fail("the template must write a prompt as it writes it before an answer; use a template ",
           "with {% generation %} (message ", later.back(), ")");
    sample.answers = joined(std::move(sample.answers));
    if (!sample.answers.empty() || waiting.empty()) samples.push_back(std::move(sample));
    waiting = std::move(later);
    if (!waiting.empty()) messages = waiting.back() + 1;
  } while (!waiting.empty());
  return samples;
}

}  // namespace

std::string render(const Conversation& conversation, const ChatFormat& format,
                   bool generation_prompt, std::time_t now) {
  const Ending ending = generation_prompt ? Ending::kPrompt : Ending::kClosed;
  return Prefixes(conversation, format, now).render(conversation.messages.size(), ending).text;
}

std::vector<Sample> samples_of(const Conversation& conversation, const ChatFormat& format,
                               std::time_t now, const std::string& where) {
  Prefixes prefixes(conversation, format, now);
  try {
    if (!prefixes.used().has_generation()) return grow(prefixes, conversation, format);
    Rendered rendered = prefixes.render(conversation.messages.size(), Ending::kClosed);
    // Answers of a prompt are not trained.
    const std::size_t first =
        conversation.prompt == 0 ? 0
                                 : common_start(prefixes.text(conversation.prompt, Ending::kPrompt),
                                                rendered.text, format.added_tokens);
    for (Span& span : rendered.generation) span.begin = std::max(span.begin, first);
    return {{std::move(rendered.text), joined(std::move(rendered.generation)), false}};
  } catch (const Failure& failure) {
    throw core::UserError(core::ExitCode::kDataError, where + ": " + failure.what());
  } catch (const core::UserError& error) {
    throw core::UserError(error.code(), where + ": " + error.what());
  }
}

Sample sample_of(const PromptCompletion& record, const std::string& eos_token) {
  Sample sample{record.prompt + record.completion, {}, true};
  if (!sample.text.ends_with(eos_token)) sample.text += eos_token;
  sample.answers = joined({{record.prompt.size(), sample.text.size()}});
  return sample;
}

std::vector<bool> trained_tokens(const Sample& sample, std::span<const Span> tokens) {
  std::vector<bool> trained;
  auto answer = sample.answers.begin();
  for (const Span& token : tokens) {
    while (answer != sample.answers.end() && answer->end <= token.begin) ++answer;
    const std::size_t end = std::max(token.end, token.begin + 1);
    trained.push_back(answer != sample.answers.end() && answer->begin < end);
  }
  return trained;
}

}  // namespace fm::chat
