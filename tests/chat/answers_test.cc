#include "chat/answers.h"

#include <gtest/gtest.h>

#include "chat/json_text.h"
#include "tests/data/scratch_folder.h"

namespace fm::chat {
namespace {

using testing::message_of;

// ChatML, as Qwen and others have it.
const char* const kChatMl =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

ChatFormat format_of(const std::string& text) {
  return {Template(text, "t.jinja"), {}, {{"eos_token", "</s>"}}, {"</s>", "<|user|>"}};
}

Conversation read(const std::string& line) {
  return std::get<Conversation>(read_record(parse_json(line, "c.jsonl:1"), "c.jsonl:1"));
}

// Texts with what is trained in {braces}.
std::vector<std::string> shown(const std::string& text, const std::string& line) {
  std::vector<std::string> texts;
  for (const Sample& sample : samples_of(read(line), format_of(text), 0, "c.jsonl:1")) {
    std::string out = sample.text;
    for (auto at = sample.answers.rbegin(); at != sample.answers.rend(); ++at) {
      out.insert(at->end, "}");
      out.insert(at->begin, "{");
    }
    EXPECT_FALSE(sample.special_tokens);
    texts.push_back(out);
  }
  return texts;
}

const char* const kTwoTurns = R"({"messages": [{"role": "user", "content": "a"},
    {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"},
    {"role": "assistant", "content": "d"}]})";

TEST(Answers, AreWhatTheAssistantAddsBehindItsHeader) {
  EXPECT_EQ(shown(kChatMl, kTwoTurns),
            std::vector<std::string>{
                "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n{b<|im_end|>\n}"
                "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n{d<|im_end|>\n}"});
}

TEST(Answers, OfTurnsInARowAreAllTrained) {
  EXPECT_EQ(shown(kChatMl, R"({"messages": [{"role": "user", "content": "a"},
      {"role": "assistant", "content": "b"}, {"role": "assistant", "content": "c"},
      {"role": "user", "content": "d"}]})"),
            std::vector<std::string>{
                "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n{b<|im_end|>\n}"
                "<|im_start|>assistant\n{c<|im_end|>\n}<|im_start|>user\nd<|im_end|>\n"});
}

TEST(Answers, OfAPromptAreNotTrained) {
  EXPECT_EQ(shown(kChatMl, R"({"prompt": [{"role": "user", "content": "a"},
      {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}],
      "completion": [{"role": "assistant", "content": "d"}]})"),
            std::vector<std::string>{
                "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
                "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n{d<|im_end|>\n}"});
}

TEST(Answers, WithoutOneAreNone) {
  EXPECT_EQ(shown(kChatMl, R"({"messages": [{"role": "user", "content": "a"}]})"),
            std::vector<std::string>{"<|im_start|>user\na<|im_end|>\n"});
}

// As Phi-3 ends a conversation that waits for nothing.
TEST(Answers, EndBeforeATokenThatClosesOnlyTheWhole) {
  const std::string text =
      "{% for m in messages %}<|{{ m.role }}|>{{ m.content }};{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% else %}</s>{% endif %}";
  EXPECT_EQ(shown(text, kTwoTurns),
            std::vector<std::string>{"<|user|>a;<|assistant|>{b;}<|user|>c;<|assistant|>{d;</s>}"});
}

// As Qwen3 drops the thoughts of answers that others follow.
TEST(Answers, ThatAreRewrittenLaterGetATextOfTheirOwn) {
  const std::string text =
      "{% for m in messages %}{% if m.role == 'user' %}U:{{ m.content }};{% else %}A:"
      "{% if loop.last %}<think/>{% endif %}{{ m.content }};{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}A:{% endif %}";
  EXPECT_EQ(shown(text, kTwoTurns),
            (std::vector<std::string>{"U:a;A:b;U:c;A:{<think/>d;}", "U:a;A:{<think/>b;}"}));
}

TEST(Answers, BehindAPromptThatIsWrittenOtherwiseAreRefused) {
  const std::string text =
      "{% for m in messages %}{% if m.role == 'user' and loop.last %}SYSTEM {% endif %}"
      "{{ m.content }};{% endfor %}";
  const auto body = [&] { shown(text, kTwoTurns); };
  EXPECT_EQ(message_of<core::UserError>(11, body),
            "c.jsonl:1: the template must write a prompt as it writes it before an answer; use a "
            "template with {% generation %} (message 3)");
}

TEST(Answers, OfATemplateWithGenerationAreItsOwn) {
  const std::string text =
      "{% for m in messages %}{% if m.role == 'user' %}é{{ m.content }}{% else %}A:"
      "{% generation %}{{ m.content }}{% endgeneration %};{% endif %}{% endfor %}";
  EXPECT_EQ(shown(text, kTwoTurns), std::vector<std::string>{"éaA:{b};écA:{d};"});
}

TEST(Answers, NameTheLineThatTheTemplateRefuses) {
  const auto body = [] { shown("\n{{ raise_exception('roles') }}", kTwoTurns); };
  EXPECT_EQ(message_of<core::UserError>(11, body),
            "c.jsonl:1: t.jinja:2: the template refuses this conversation: roles");
}

TEST(Answers, SeeToolsAndTheVariablesOfTheLine) {
  EXPECT_EQ(shown("{{ tools|tojson }}{{ think }}{{ eos_token }}{{ messages[0].content }}",
                  R"({"messages": [{"role": "user", "content": "a"}], "tools": "[{\"x\": 1}]",
                      "chat_template_kwargs": {"think": "T"}})"),
            std::vector<std::string>{"[{\"x\": 1}]T</s>a"});
}

TEST(PromptCompletionSample, EndsWithOneEndOfSequence) {
  const Sample sample = sample_of({"é:", " b"}, "</s>");
  EXPECT_EQ(sample.text, "é: b</s>");
  EXPECT_EQ(sample.answers, (std::vector<Span>{{3, 9}}));
  EXPECT_TRUE(sample.special_tokens);
  EXPECT_EQ(sample_of({"a", "b</s>"}, "</s>").text, "ab</s>");
}

TEST(TrainedTokens, AreThoseWithAByteOfAnAnswer) {
  const Sample sample{"0123456789", {{2, 4}, {6, 7}}, false};
  const std::vector<Span> tokens = {{0, 1}, {1, 3}, {3, 3}, {3, 5}, {5, 6}, {6, 10}};
  EXPECT_EQ(trained_tokens(sample, tokens),
            (std::vector<bool>{false, true, true, true, false, true}));
}

}  // namespace
}  // namespace fm::chat
