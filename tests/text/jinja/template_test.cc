// Limits and refusals of templates; what they render is in jinja_cases_test.cc.
#include "text/jinja/template.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/text/data/scratch_folder.h"

namespace fm::jinja {
namespace {

std::string refusal(const std::string& text) {
  return testing::message_of<core::UserError>(11, [&] { Template(text, "t").render({}, 0); });
}

const std::string kTooMuch =
    "t:1: a template must end after 5000000 steps, of which each 128 bytes that it reads or writes "
    "are one; write it shorter";

std::string rendered(const std::string& text) { return Template(text, "t").render({}, 0).text; }

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
            kTooMuch);
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

// Each of these is few steps; the limit is a small one, so that the test takes no time.
TEST(Template, CountsWhatItsOperationsReadAndWrite) {
  const std::string large = "{% set s = 'a' * 30000 %}{% for i in range(9999) %}";
  for (const char* const body :
       {"{% set t = s|upper %}", "{% set t = s == s ~ '' %}", "{% if 'b' in s %}{% endif %}",
        "{% set t = s %}", "{{ s and '' }}", "{% set t = s[1:] %}", "{% set t = s.strip('b') %}",
        "{% set t = s|tojson|length %}", "{% set t = s.split('b') %}", "{% set t = s.count('b') %}",
        "{% set t = [s] == [s ~ ''] %}", "{% set t = namespace(s=s) %}", "{% set t = s < s %}",
        "{% set t = '%s'|format(s) %}", "{% set t = {'s': s} %}", "{% set t = s|title %}"}) {
    const LimitedWork of_one(4'000'000);
    EXPECT_EQ(refusal(large + body + "{% endfor %}"), kTooMuch) << body;
  }
  const std::string many = "{% set l = range(9999)|list %}{% for i in range(9999) %}";
  for (const char* const body :
       {"{% if 'b' in l %}{% endif %}", "{% set t = l|sort %}", "{% set t = l + l %}",
        "{% for j in l %}{% break %}{% endfor %}", "{% set t = l == (l + [])|list %}",
        "{% set t = l|map('string')|list %}", "{% set t = l|unique|list %}", "{% set t = l[1:] %}",
        "{% set t = l|tojson %}", "{% set t = l|reverse|list %}", "{% set t = l|sum %}"}) {
    const LimitedWork of_one(4'000'000);
    EXPECT_EQ(refusal(many + body + "{% endfor %}"), kTooMuch) << body;
  }
}

// Each value is below its own limit.
TEST(Template, HoldsNoMoreInAllItsValues) {
  EXPECT_EQ(refusal("{% set ns = namespace(l=[]) %}{% for i in range(900) %}"
                    "{% set ns.l = ns.l + [('b' ~ i) * 10000000] %}{% endfor %}"),
            kTooMuch);
  std::string literal = "{% set s = 'a' * 6000000 %}{{ [";
  std::string names;
  for (int at = 0; at < 400; ++at) {
    literal += "s ~ '', ";
    names += "{% set a" + std::to_string(at) + " = 'a' * 6000000 %}";
  }
  for (const std::string& text : {literal + "] }}", names}) {
    const LimitedWork less(60'000'000);
    EXPECT_EQ(refusal(text), kTooMuch);
  }
  EXPECT_EQ(refusal("{% set ns = namespace(l=[]) %}{% for i in range(900) %}"
                    "{% set ns.l = ns.l + [range(99999)|list] %}{% endfor %}"),
            "t:1: a value has at most 1000000 items, all levels");
  const std::string few = "t:1: text has at most 64000000 bytes";
  EXPECT_EQ(refusal("{% set s = 'a' * 9000000 %}{{ ('{0}' * 99).format(s) }}"), few);
  EXPECT_EQ(refusal("{% set s = 'a' * 9000000 %}{{ ('%(s)s' * 99) % {'s': s} }}"), few);
  EXPECT_EQ(refusal("{{ [[1, 2], [3]]|tojson(indent='a' * 40000000) }}"), few);
  EXPECT_EQ(refusal("{{ ('a' * 1100000).split('a')|length }}"),
            "t:1: a value has at most 1000000 items, all levels");
  EXPECT_EQ(refusal("{{ ('\\n' * 1100000).splitlines()|length }}"),
            "t:1: a value has at most 1000000 items, all levels");
}

// A search that compared every place with all of the text would take minutes.
TEST(Template, SearchesInLinearTime) {
  const std::string texts =
      "{% set s = 'a' * 200000 %}{% set t = 'a' * 100000 ~ 'b' %}"
      "{% set u = 'b' ~ 'a' * 100000 %}";
  EXPECT_EQ(rendered(texts + "{{ s.find(t) }} {{ s.rfind(u) }} {{ t in s }} {{ s.count(t) }} "
                             "{{ s.replace(t, '')|length }} {{ s.split(t)|length }} "
                             "{{ s.rsplit(u)|length }} {{ s.strip(t)|length }}"),
            "-1 -1 False 0 200000 1 1 0");
  EXPECT_EQ(rendered("{{ 'abcabca'.rfind('ca') }} {{ 'aaa'.rfind('aa') }} {{ 'ab'.rfind('') }} "
                     "{{ 'a--b--c'.rsplit('--', 1) }} {{ 'aaa'.rsplit('aa') }} "
                     "{{ 'xyabyx'.strip('xy') }} {{ 'xyabyx'.lstrip('xy') }} "
                     "{{ 'xyabyx'.rstrip('yx') }} {{ 'éa'.rsplit('a') }}"),
            "5 1 2 ['a--b', 'c'] ['a', ''] ab abyx xyab ['é', '']");
}

TEST(Template, SaysTheBeginningOfALongMessage) {
  const std::string said = refusal("{{ raise_exception('é' * 1000000) }}");
  const std::string begin = "t:1: the template refuses this conversation: ";
  ASSERT_TRUE(said.starts_with(begin + "é"));
  EXPECT_EQ(said.size(), begin.size() + 300 + 3);
  EXPECT_TRUE(said.ends_with("é..."));
  EXPECT_LT(refusal("{% set d = {} %}{{ d['x' * 1000000].y }}").size(), 400U);
  EXPECT_LT(refusal("{{ ('{' * 999999).format(1) }}").size(), 400U);
  EXPECT_LT(refusal("{{ ('1_' * 999999)|int }}").size(), 400U);
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
}  // namespace fm::jinja
