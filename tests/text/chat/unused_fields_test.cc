#include "text/chat/unused_fields.h"

#include <gtest/gtest.h>

#include "text/jinja/json_text.h"

namespace fm::chat {
namespace {

using Names = std::vector<std::string>;

Names unused(const std::string& line, const std::string& text) {
  const ChatFormat format{jinja::Template(text, "t.jinja"), {}, {}, {}};
  const jinja::Value value = jinja::parse_json(line, "c");
  return unused_fields(value, *form_of(value), &format);
}

constexpr const char* kText = "{% for m in messages %}{{ m.role }}{{ m['name'] }}{% endfor %}";

TEST(UnusedFields, AreThoseThatNeitherTheFormNorTheTemplateReads) {
  EXPECT_EQ(unused(R"({"id": 7, "empty": "", "none": null, "system": "s", "messages": [
      {"role": "user", "content": "a", "name": "n", "id": 1, "weight": 0},
      {"role": "user", "content": "a", "id": 2, "reasoning": "r"}]})",
                   kText),
            (Names{"id", "messages[].id", "messages[].reasoning"}));
  EXPECT_EQ(unused(R"({"messages": [{"role": "user", "content": "a", "reasoning": "r"}]})",
                   "{{ messages[0].reasoning_content }}"),
            Names{});
}

TEST(UnusedFields, OfTurnsAreAllOthers) {
  EXPECT_EQ(unused(R"({"text": "t", "source": 0, "conversations": [
      {"from": "human", "value": "a", "name": "n"}, {"from": "gpt", "value": "b", "weight": 1}]})",
                   kText),
            (Names{"text", "source", "conversations[].name"}));
}

TEST(UnusedFields, AreToolsAndVariablesThatATemplateDoesNotName) {
  const char* const line = R"({"tools": [{"name": "f"}], "chat_template_kwargs": {"think": true},
      "prompt": [{"role": "user", "content": "a", "x": 1}],
      "completion": [{"role": "assistant", "content": "b"}]})";
  EXPECT_EQ(unused(line, kText), (Names{"tools", "chat_template_kwargs.think", "prompt[].x"}));
  EXPECT_EQ(unused(line, "{{ tools }}{{ think }}{{ messages[0].x }}"), Names{});
}

TEST(UnusedFields, OfTextsAreAllOthers) {
  EXPECT_EQ(unused(R"({"prompt": "a", "completion": "b", "tools": [1], "category": "c"})", kText),
            (Names{"tools", "category"}));
  EXPECT_EQ(unused(R"({"instruction": "a", "input": "", "output": "b", "text": "c"})", kText),
            Names{"text"});
}

}  // namespace
}  // namespace fm::chat
