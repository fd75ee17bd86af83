#include "text/chat/answers.h"

#include <algorithm>
#include <optional>

#include "text/chat/answer_finder.h"
#include "text/chat/prefixes.h"

namespace fm::chat {
namespace {

bool is_answer(const jinja::Value& message) {
  return *find_field(message, "role")->text() == "assistant";
}

// Spans in order, those that touch or overlap made one, empty ones left out.
std::vector<jinja::Span> joined(std::vector<jinja::Span> spans) {
  std::sort(spans.begin(), spans.end(), [](const jinja::Span& left, const jinja::Span& right) {
    return left.begin < right.begin;
  });
  std::vector<jinja::Span> kept;
  for (const jinja::Span& span : spans) {
    if (span.begin >= span.end) continue;
    if (!kept.empty() && span.begin <= kept.back().end) {
      kept.back().end = std::max(kept.back().end, span.end);
    } else {
      kept.push_back(span);
    }
  }
  return kept;
}

// The messages that are trained.
std::vector<std::size_t> answers_of(const Conversation& conversation) {
  std::vector<std::size_t> answers;
  const std::vector<std::size_t>& left_out = conversation.untrained;
  for (std::size_t at = conversation.prompt; at < conversation.messages.size(); ++at) {
    if (is_answer(conversation.messages[at]) && !std::ranges::binary_search(left_out, at))
      answers.push_back(at);
  }
  return answers;
}

[[noreturn]] void fail_prompt(std::size_t message) {
  jinja::fail("the template must write a prompt as it writes it before an answer; use a template ",
              "with {% generation %} (message ", message, ")");
}

// The whole text first, then a text for the last answer that has none yet.
std::vector<Sample> grow(Prefixes& prefixes, const Conversation& conversation) {
  AnswerFinder finder(prefixes);
  std::vector<std::size_t> waiting = answers_of(conversation);
  std::vector<Sample> samples;
  std::size_t messages = conversation.messages.size();
  std::size_t bytes = 0;
  do {
    Sample sample{prefixes.text(messages, RenderMode::kClosed), {}, false};
    bytes += sample.text.size();
    if (bytes > jinja::kMostTextBytes)
      jinja::fail(
          "the template rewrites answers that others follow, so that each becomes a text of its ",
          "own, and all together may have at most ", jinja::kMostTextBytes, " bytes; split the ",
          "conversation, or use a template that keeps them (", conversation.messages.size(),
          " messages)");
    // Of a long conversation the last answer comes first, so that a refusal takes no search.
    const bool ends = !waiting.empty() && waiting.back() + 1 == messages;
    if (ends && messages > kShortMessages &&
        !finder.find_one(waiting.back(), sample.text, messages))
      fail_prompt(waiting.back());
    const std::vector<std::optional<jinja::Span>> found =
        finder.find(waiting, sample.text, messages);
    std::vector<std::size_t> later;
    for (std::size_t at = 0; at < waiting.size(); ++at) {
      if (found[at]) {
        sample.answers.push_back(*found[at]);
      } else {
        later.push_back(waiting[at]);
      }
    }
    if (later.size() == waiting.size() && ends) fail_prompt(later.back());
    sample.answers = joined(std::move(sample.answers));
    if (!sample.answers.empty() || waiting.empty()) samples.push_back(std::move(sample));
    waiting = std::move(later);
    if (!waiting.empty()) messages = waiting.back() + 1;
  } while (!waiting.empty());
  if (samples.empty()) samples.push_back({prefixes.text(messages, RenderMode::kClosed), {}, false});
  return samples;
}

// By the template's own {% generation %}.
Sample marked(Prefixes& prefixes, const Conversation& conversation) {
  const std::size_t messages = conversation.messages.size();
  jinja::Rendered rendered = prefixes.render(conversation.messages, RenderMode::kClosed);
  // Answers of a prompt are not trained.
  if (conversation.prompt > 0) {
    const std::string prompt = prefixes.text(conversation.prompt, RenderMode::kPrompt);
    const std::size_t first = common_start(prompt, rendered.text, prefixes.tokens());
    for (jinja::Span& span : rendered.generation) span.begin = std::max(span.begin, first);
  }
  std::vector<std::size_t> untrained = conversation.untrained;
  std::erase_if(untrained, [&](std::size_t index) { return index < conversation.prompt; });
  const std::vector<std::optional<jinja::Span>> left_out =
      AnswerFinder(prefixes).find(untrained, rendered.text, messages);
  for (std::size_t at = 0; at < left_out.size(); ++at) {
    if (!left_out[at])
      jinja::fail(
          "an answer that is not trained must stand in the text as the model writes it; use a ",
          "template that does not rewrite it (message ", untrained[at], ")");
    std::erase_if(rendered.generation, [&](const jinja::Span& span) {
      return span.begin < left_out[at]->end && left_out[at]->begin < span.end;
    });
  }
  return {std::move(rendered.text), joined(std::move(rendered.generation)), false};
}

}  // namespace

std::string render(const Conversation& conversation, const ChatFormat& format,
                   bool generation_prompt, std::time_t now) {
  const RenderMode mode = generation_prompt ? RenderMode::kPrompt : RenderMode::kClosed;
  return Prefixes(conversation, format, now).render(conversation.messages, mode).text;
}

std::vector<Sample> samples_of(const Conversation& conversation, const ChatFormat& format,
                               std::time_t now, const std::string& where) {
  Prefixes prefixes(conversation, format, now);
  try {
    if (!conversation.untrainable.empty()) jinja::fail(conversation.untrainable);
    std::vector<Sample> samples;
    if (prefixes.used().has_generation()) {
      samples.push_back(marked(prefixes, conversation));
    } else {
      samples = grow(prefixes, conversation);
    }
    if (samples[0].text.empty())
      jinja::fail(
          prefixes.used().file(), ": a template must make text of a conversation; give the ",
          "model's own (it made an empty text of ", conversation.messages.size(), " messages)");
    return samples;
  } catch (const jinja::Failure& failure) {
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

std::vector<bool> trained_tokens(const Sample& sample, std::span<const jinja::Span> tokens) {
  std::vector<bool> trained;
  auto answer = sample.answers.begin();
  for (const jinja::Span& token : tokens) {
    while (answer != sample.answers.end() && answer->end <= token.begin) ++answer;
    const std::size_t end = std::max(token.end, token.begin + 1);
    trained.push_back(answer != sample.answers.end() && answer->begin < end);
  }
  return trained;
}

}  // namespace fm::chat
