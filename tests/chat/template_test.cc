// Limits and refusals of templates; what they render is in jinja_cases_test.cc.
#include "chat/template.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/data/scratch_folder.h"

namespace fm::chat {
namespace {

std::string refusal(const std::string& text) {
  return testing::message_of<core::UserError>(11, [&] { Template(text, "t").render({}, 0); });
}

TEST(Template, NamesTheLineOfWhatItDoesNotKnow) {
  EXPECT_TRUE(refusal("a\n\n{{ 1|nope }}").starts_with("t:3: a filter must be one of abs, "));
  EXPECT_TRUE(refusal("{{ 1 is\nnope }}").starts_with("t:2: a test must be one of !=, "));
  EXPECT_TRUE(refusal("\n{% include 'x' %}").starts_with("t:2: a block must be one of break, "));
  EXPECT_EQ(refusal("\r\n{{ f(*x) }}"),
            "t:2: *arguments and **arguments are not supported; name them one by one");
  EXPECT_EQ(refusal("{% for x in [1] recursive %}{% endfor %}"),
            "t:1: recursive loops are not supported; use a macro");
}

TEST(Template, NamesTheLineWhereItFails) {
  EXPECT_EQ(refusal("a\n{{ x.y }}"), "t:2: \"x\" is undefined");
  EXPECT_EQ(refusal("{% macro m() %}\n{{ 1 + 'a' }}{% endmacro %}\n\n{{ m() }}"),
            "t:2: operands that fit together are required; convert one, as with the filter string "
            "(an integer + text)");
  EXPECT_EQ(refusal("\n{{ raise_exception('Only user and assistant') }}"),
            "t:2: the template refuses this conversation: Only user and assistant");
}

TEST(Template, EndsWhereItWouldNotEnd) {
  EXPECT_EQ(refusal("{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}"
                    "{% endfor %}"),
            "t:1: a template must end after 5000000 steps");
  EXPECT_EQ(refusal("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
            "t:1: calls and expressions nest at most 600 deep");
}

TEST(Template, HoldsNoMoreThanAConversationNeeds) {
  const std::string doubled = "{% set ns = namespace(x='a') %}{% for i in range(99) %}";
  EXPECT_EQ(refusal(doubled + "{% set ns.x = ns.x ~ ns.x %}{% endfor %}"),
            "t:1: text has at most 64000000 bytes");
  EXPECT_EQ(refusal("{{ 'ab' * 99999999999 }}"), "t:1: text has at most 64000000 bytes");
  EXPECT_EQ(refusal("{{ [1] * 99999999999 }}"),
            "t:1: a value has at most 1000000 items, all levels");
  EXPECT_EQ(refusal(doubled + "{% set ns.x = [ns.x, ns.x] %}{% endfor %}"),
            "t:1: a value has at most 1000000 items, all levels");
  EXPECT_EQ(refusal("{% set ns = namespace(x=1) %}{% for i in range(999) %}"
                    "{% set ns.x = [ns.x] %}{% endfor %}"),
            "t:1: lists and dicts nest at most 200 deep");
}

TEST(Template, NestsNoDeeperThanAStackHolds) {
  const auto many = [](const std::string& text, int times) {
    std::string out;
    for (int at = 0; at < times; ++at) out += text;
    return out;
  };
  const std::string deep = "t:1: expressions may nest 200 deep; simplify the template";
  EXPECT_EQ(refusal("{{ " + many("(", 5000) + many(")", 5000) + " }}"), deep);
  EXPECT_EQ(refusal("{{ " + many("[", 5000) + many("]", 5000) + " }}"), deep);
  EXPECT_EQ(refusal("{{ " + many("-", 5000) + "1 }}"), deep);
  EXPECT_EQ(refusal("{{ " + many("not ", 5000) + "1 }}"), deep);
  EXPECT_EQ(refusal("{{ 1" + many(" + 1", 5000) + " }}"), deep);
  EXPECT_EQ(refusal("{{ x" + many(".y", 5000) + " }}"), deep);
  EXPECT_EQ(refusal("{{ 1" + many(" if 1 else 1", 5000) + " }}"), deep);
  EXPECT_EQ(refusal(many("{% if 1 %}", 5000)), "t:1: blocks may nest 100 deep");
  EXPECT_EQ(refusal("{% set " + many("(", 5000) + many(")", 5000) + " = 1 %}"),
            "t:1: targets may nest 100 deep");
}

// Namespaces may hold each other, and macros outlive the block that made them.
TEST(Template, FreesWhatHoldsItself) {
  const Template text(
      "{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{% set a.l = [a] %}"
      "{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{% set a.m = m %}"
      "{% set a.loop = loop %}{% endfor %}{{ a.m() }}{{ a.loop.index }}",
      "t");
  EXPECT_EQ(text.render({}, 0).text, "22");
}

}  // namespace
}  // namespace fm::chat
