// Small templates against what jinja2 renders in transformers' environment; the cases are made and
// compared by tests/oracle/chat_cases.py.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "text/jinja/json_text.h"
#include "text/jinja/template.h"

namespace fm::jinja {
namespace {

// As the file has it: "text" and "generation", or "error".
nlohmann::json rendered(const std::string& text, const Dict& given) {
  try {
    const Rendered out = Template(text, "t").render(given.find("variables")->dict()->entries,
                                                    *given.find("now")->get<std::int64_t>());
    nlohmann::json spans = nlohmann::json::array();
    for (const Span& span : out.generation) spans.push_back({span.begin, span.end});
    return {{"text", out.text}, {"generation", spans}};
  } catch (const core::UserError& error) {
    // Where it is, before why.
    if (std::string(error.what()).starts_with("t:")) return {{"error", true}};
    return {{"error", error.what()}};
  }
}

TEST(JinjaCases, AreRenderedAsJinja2RendersThem) {
  std::ifstream file(FM_JINJA_CASES);
  std::string line;
  ASSERT_TRUE(std::getline(file, line)) << FM_JINJA_CASES;
  const Value given = parse_json(line, FM_JINJA_CASES);
  int seen = 0;
  while (std::getline(file, line)) {
    nlohmann::json expected = nlohmann::json::parse(line);
    const std::string text = expected.at("template");
    expected.erase("template");
    EXPECT_EQ(rendered(text, *given.dict()), expected) << text;
    ++seen;
  }
  EXPECT_GT(seen, 500);
}

}  // namespace
}  // namespace fm::jinja
