// Thousands of damaged templates: each is rendered or refused with its line, and nothing else.
#include <gtest/gtest.h>

#include <random>

#include "tests/mutation_rounds.h"
#include "text/jinja/json_text.h"
#include "text/jinja/template.h"

namespace fm::jinja {
namespace {

const std::string kSeeds[] = {
    "{%- set ns = namespace(found=false, n=1) -%}\n{%- for m in messages if m.role != 'x' %}\n"
    "{{- '<|' + m['role'] + '|>\\n' + m.content | trim }}{% if loop.last and not ns.found %}"
    "{% set ns.found = true %}{% break %}{% else %}{{ loop.index0 // 2 }}{% endif %}{% endfor %}",
    "{% macro f(x, y=2) %}{{ x }}{{ y ~ 'é🙂' }}{% endmacro %}{{ f(1, y=[1, 2.5e-3][::-1]) }}"
    "{# c #}{% raw %}{{ x }}{% endraw %}{% set v | upper %}a{{ 'b' }}{% endset %}{{ v[1:] }}",
    "{% with a = {'k': (1, none)}, b = 0x1F %}{{ a | tojson(indent=2) }}{{ b ** 2 % 7 }}"
    "{% endwith %}{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') "
    "| list | join(', ') }}{% filter trim %} x {% endfilter %}{% generation %}y{% endgeneration %}",
    "{{ '%s-%5.2f' % ('a', 1.5) }}{{ '{}{a}'.format(1, a=2) }}{{ messages[0].content.split('\\n') "
    "if messages is defined and messages[0] is mapping else \"\\u00e9\\x41\" }}"
    "{% for k, v in d.items() %}{{ k }}{{ v is not none }}{% endfor %}{{ d | dictsort }}",
};

std::string damaged(std::string text, std::mt19937& random) {
  const std::string letters = "{}%#()[]'\"\\|.,:=<>+-*/~ \nxean019_\xC3\xFF";
  for (auto change = 1 + random() % 3; change > 0 && !text.empty(); --change) {
    const std::size_t at = random() % text.size();
    const char letter = letters[random() % letters.size()];
    switch (random() % 5) {
      case 0: text[at] = letter; break;
      case 1: text.insert(at, 1, letter); break;
      case 2: text.erase(at, 1 + random() % 3); break;
      case 3: text.resize(at); break;
      default:  // the fourth: a piece is doubled
        text.insert(at, text.substr(random() % text.size(), random() % 40));
        break;
    }
  }
  return text;
}

TEST(TemplateMutation, EveryDamagedTemplateIsRenderedOrRefused) {
  const Value variables = parse_json(
      R"({"messages": [{"role": "user", "content": " a\nb "}, {"role": "x", "content": "é"}],
          "d": {"k": null, "B": [1, 2]}})",
      "v");
  std::mt19937 random(20251125);
  int rendered = 0;
  const int rounds = testing::mutation_rounds(8'000);
  for (int round = 0; round < rounds; ++round) {
    const std::string text = damaged(kSeeds[random() % 4], random);
    try {
      Template(text, "t").render(variables.dict()->entries, 0);
      ++rendered;
    } catch (const core::UserError& error) {
      ASSERT_TRUE(std::string(error.what()).starts_with("t:")) << error.what() << "\n" << text;
    }
  }
  EXPECT_GT(rendered, rounds / 16);  // the test would prove little if nearly all were refused
  EXPECT_LT(rendered, rounds / 16 * 15);
}

}  // namespace
}  // namespace fm::jinja
