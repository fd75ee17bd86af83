#include "text/chat/answers.h"

#include <gtest/gtest.h>

#include "tests/text/data/scratch_folder.h"
#include "text/jinja/json_text.h"

namespace fm::chat {
namespace {

using testing::message_of;

// ChatML, as Qwen and others have it.
const char* const kChatMl =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

ChatFormat format_of(const std::string& text) {
  return {jinja::Template(text, "t.jinja"), {}, {{"eos_token", "</s>"}}, {"</s>", "<|user|>"}};
}

Conversation read(const std::string& line) {
  return std::get<Conversation>(read_record(jinja::parse_json(line, "c.jsonl:1"), "c.jsonl:1"));
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

// As Qwen 2.5 has it: a system text of its own where the first message is none.
const char* const kDefaultSystem =
    "{% if messages[0].role != 'system' %}<system>Be good.</s>{% endif %}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

const char* const kGreeting = R"({"messages": [{"role": "assistant", "content": "a"},
    {"role": "user", "content": "b"}, {"role": "assistant", "content": "c"}]})";

TEST(Answers, AtTheBeginningHaveNoHeaderAndNoDefaultSystemText) {
  EXPECT_EQ(shown(kDefaultSystem, kGreeting),
            std::vector<std::string>{
                "<system>Be good.</s><assistant>{a</s>}<user>b</s><assistant>{c</s>}"});
  // One alone, an empty one, one that is written otherwise, and two.
  EXPECT_EQ(shown(kDefaultSystem, R"({"messages": [{"role": "assistant", "content": "a"}]})"),
            std::vector<std::string>{"<system>Be good.</s><assistant>{a</s>}"});
  EXPECT_EQ(shown(kDefaultSystem, R"({"messages": [{"role": "assistant", "content": ""},
      {"role": "user", "content": "[z"}]})"),
            std::vector<std::string>{"<system>Be good.</s><assistant>{</s>}<user>[z</s>"});
  EXPECT_EQ(shown(kDefaultSystem, R"({"messages": [{"role": "assistant", "content": " [z "},
      {"role": "user", "content": "zz"}]})"),
            std::vector<std::string>{"<system>Be good.</s><assistant>{[z</s>}<user>zz</s>"});
  EXPECT_EQ(shown(kDefaultSystem, R"({"messages": [{"role": "assistant", "content": "a"},
      {"role": "assistant", "content": "b"}]})"),
            std::vector<std::string>{"<system>Be good.</s><assistant>{a</s>}<assistant>{b</s>}"});
}

TEST(Answers, AtTheBeginningAreTrainedWithTheThoughtsThatTheTemplateWrites) {
  const std::string text =
      "<s>{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}<think/>{% endif %}"
      "{{ m.content }}</s>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
  EXPECT_EQ(shown(text, kGreeting),
            std::vector<std::string>{
                "<s><assistant>{<think/>a</s>}<user>b</s><assistant>{<think/>c</s>}"});
}

// A prompt opens thoughts that the text closes at once, or does not have at all.
TEST(Answers, AtTheBeginningStartWhereThePromptEndsInTheText) {
  const std::string text =
      "<s>{% for m in messages %}<{{ m.role }}>{% if think and m.role == 'assistant' %}"
      "<think></think>{% endif %}{{ m.content }}</s>{% endfor %}"
      "{% if add_generation_prompt %}<assistant><think>{% endif %}";
  std::string line = kGreeting;
  EXPECT_EQ(
      shown(text, line.replace(line.rfind('}'), 1, R"(, "chat_template_kwargs": {"think": 1}})")),
      std::vector<std::string>{"<s><assistant><think>{</think>a</s>}<user>b</s>"
                               "<assistant><think>{</think>c</s>}"});
  EXPECT_EQ(shown(text, R"({"messages": [{"role": "assistant", "content": "a"}]})"),
            std::vector<std::string>{"<s><assistant>{a</s>}"});
}

// As gpt-oss does.
TEST(Answers, AtTheBeginningThatOnlyTheLastTurnEndsSoGetATextOfTheirOwn) {
  const std::string text =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
      "{% if loop.last and m.role == 'assistant' %}</s>{% else %};{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  EXPECT_EQ(
      shown(text, kGreeting),
      (std::vector<std::string>{"<assistant>a;<user>b;<assistant>{c</s>}", "<assistant>{a</s>}"}));
}

// As templates that demand a question do.
TEST(Answers, OfATemplateThatRefusesTheMessagesBeforeThem) {
  const std::string text =
      "{% if messages | selectattr('role', 'equalto', 'user') | list | length == 0 %}"
      "{{ raise_exception('no user') }}{% endif %}" +
      std::string(kDefaultSystem);
  EXPECT_EQ(shown(text, kGreeting),
            std::vector<std::string>{
                "<system>Be good.</s><assistant>{a</s>}<user>b</s><assistant>{c</s>}"});
  EXPECT_EQ(shown(text, R"({"messages": [{"role": "system", "content": "s"},
      {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]})"),
            std::vector<std::string>{"<system>s</s><assistant>{a</s>}<user>b</s>"});
}

TEST(Answers, ThatAreMarkedAreNotTrained) {
  const char* const line = R"({"messages": [{"role": "user", "content": "a"},
      {"role": "assistant", "content": "b", "weight": 0}, {"role": "user", "content": "c"},
      {"role": "assistant", "content": "d", "weight": 1}, {"role": "assistant", "content": "e"},
      {"role": "assistant", "content": "f", "train": false}]})";
  const std::string text =
      "{% for m in messages %}{{ m.role[0] }}:{% if m.role == 'assistant' %}{% generation %}"
      "{{ m.content }};{% endgeneration %}{% else %}{{ m.content }};{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}a:{% endif %}";
  for (const std::string& one :
       {text, std::string("{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}"
                          "{% if add_generation_prompt %}a:{% endif %}")}) {
    EXPECT_EQ(shown(one, line), std::vector<std::string>{"u:a;a:b;u:c;a:{d;}a:{e;}a:f;"});
  }
}

TEST(Answers, MarkedInAPlaceThatCannotBeTrainedAreRefused) {
  const auto body = [] {
    shown(kChatMl, R"({"messages": [{"role": "user", "content": "a", "train": true},
                       {"role": "assistant", "content": "b"}]})");
  };
  EXPECT_EQ(
      message_of<core::UserError>(11, body),
      "c.jsonl:1: messages[0]: \"train\" asks to train a message that is no answer of the "
      "assistant; remove the field, and train everything with --train_on_inputs if you want to");
}

TEST(Answers, OfATemplateThatWritesNothingAreRefused) {
  const auto body = [] { shown("{% if 0 %}{{ messages }}{% endif %}", kTwoTurns); };
  EXPECT_EQ(message_of<core::UserError>(11, body),
            "c.jsonl:1: t.jinja: a template must make text of a conversation; give the model's own "
            "(it made an empty text of 4 messages)");
}

// A conversation of `turns` questions and answers.
std::string long_line(int turns) {
  std::string line = R"({"messages": [{"role": "system", "content": "s"})";
  for (int turn = 0; turn < turns; ++turn) {
    const std::string number = std::to_string(turn);
    line += R"(, {"role": "user", "content": "q)" + number +
            R"("}, {"role": "assistant", "content": "a)" + number + R"("})";
  }
  return line + "]}";
}

TEST(Answers, OfALongConversationAreThoseOfAShortOne) {
  constexpr int kTurns = 200;
  std::string greeted = long_line(kTurns);
  greeted.replace(greeted.find("system"), 6, "assistant");
  EXPECT_TRUE(shown(kDefaultSystem, greeted)[0].starts_with(
      "<system>Be good.</s><assistant>{s</s>}<user>q0</s><assistant>{a0</s>}"));
  std::string expected = "<system>s</s>";
  std::string as_phi = "<system>s;";
  for (int turn = 0; turn < kTurns; ++turn) {
    const std::string number = std::to_string(turn);
    expected += "<user>q" + number + "</s><assistant>{a" + number + "</s>}";
    as_phi +=
        "<user>q" + number + ";<assistant>{a" + number + (turn + 1 < kTurns ? ";}" : ";</s>}");
  }
  EXPECT_EQ(shown(kDefaultSystem, long_line(kTurns)), std::vector<std::string>{expected});
  EXPECT_EQ(shown("{% for m in messages %}<{{ m.role }}>{{ m.content }};{% endfor %}"
                  "{% if add_generation_prompt %}<assistant>{% else %}</s>{% endif %}",
                  long_line(kTurns)),
            std::vector<std::string>{as_phi});
}

// Numbered turns are no parts of the text when a few messages are rendered by themselves.
TEST(Answers, OfALongConversationAreFoundWhereATemplateCounts) {
  const std::string text =
      "{% for m in messages %}{{ loop.index }}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
      "{% if add_generation_prompt %}{{ messages | length + 1 }}<assistant>{% endif %}";
  std::string expected = "1<system>s</s>";
  for (int turn = 0; turn < 60; ++turn) {
    const std::string number = std::to_string(turn);
    expected += std::to_string(2 * turn + 2) + "<user>q" + number + "</s>" +
                std::to_string(2 * turn + 3) + "<assistant>{a" + number + "</s>}";
  }
  EXPECT_EQ(shown(text, long_line(60)), std::vector<std::string>{expected});
}

TEST(Answers, OfALongConversationThatIsRewrittenGetTextsUpToALimit) {
  const std::string text =
      "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' and loop.last %}<think/>"
      "{% endif %}{{ m.content }}</s>{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  const std::vector<std::string> texts = shown(text, long_line(50));
  ASSERT_EQ(texts.size(), 50U);
  EXPECT_TRUE(texts[49].ends_with("<user>q0</s><assistant>{<think/>a0</s>}")) << texts[49];
  std::string line = long_line(40);
  line.insert(line.find("\"s\"") + 1, std::string(2'000'000, 'x'));
  EXPECT_NE(message_of<core::UserError>(11, [&] { shown(text, line); })
                .find("the template rewrites answers that others follow"),
            std::string::npos);
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
  EXPECT_EQ(sample.answers, (std::vector<jinja::Span>{{3, 9}}));
  EXPECT_TRUE(sample.special_tokens);
  EXPECT_EQ(sample_of({"a", "b</s>"}, "</s>").text, "ab</s>");
}

TEST(TrainedTokens, AreThoseWithAByteOfAnAnswer) {
  const Sample sample{"0123456789", {{2, 4}, {6, 7}}, false};
  const std::vector<jinja::Span> tokens = {{0, 1}, {1, 3}, {3, 3}, {3, 5}, {5, 6}, {6, 10}};
  EXPECT_EQ(trained_tokens(sample, tokens),
            (std::vector<bool>{false, true, true, true, false, true}));
}

}  // namespace
}  // namespace fm::chat
