// Renders what the tests of tests/oracle ask for: a line of JSON in, a line of JSON out.
//   {"template": TEXT, "variables": {...}, "now": SECONDS}
//     -> {"text": TEXT, "generation": [[begin, end], ...]} or {"error": TEXT}
#include <iostream>
#include <nlohmann/json.hpp>

#include "chat/json_text.h"
#include "chat/template.h"

namespace {

nlohmann::json answer(const std::string& line) {
  using fm::chat::Value;
  try {
    const Value request = fm::chat::parse_json(line, "stdin");
    const fm::chat::Dict& fields = *request.dict();
    const fm::chat::Template parsed(*fields.find("template")->text(), "template");
    const auto rendered = parsed.render(fields.find("variables")->dict()->entries,
                                        *fields.find("now")->get<std::int64_t>());
    nlohmann::json spans = nlohmann::json::array();
    for (const fm::chat::Span& span : rendered.generation) spans.push_back({span.begin, span.end});
    return {{"text", rendered.text}, {"generation", spans}};
  } catch (const fm::core::UserError& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) std::cout << answer(line).dump() << '\n';
  return 0;
}
