// Answers what the tests of tests/oracle ask for: a line of JSON in, a line of JSON out.
//   {"template": TEXT, "variables": {...}, "now": SECONDS}
//     -> {"text": TEXT, "generation": [[begin, end], ...]}
//   {"folder": PATH of a model, "line": {...}, "now": SECONDS}
//     -> {"samples": [{"text": TEXT, "answers": [[begin, end], ...]}, ...]}
//   {"answers": [[begin, end], ...], "spans": [[begin, end], ...]}
//     -> {"trained": [BOOL, ...]}
// or {"error": TEXT}.
#include <iostream>
#include <nlohmann/json.hpp>

#include "text/chat/answers.h"
#include "text/jinja/json_text.h"

namespace {

using fm::jinja::Dict;
using fm::jinja::Span;
using fm::jinja::Value;
using nlohmann::json;

std::int64_t whole(const Value& value) { return *value.get<std::int64_t>(); }

json to_json(const std::vector<Span>& spans) {
  json list = json::array();
  for (const Span& span : spans) list.push_back({span.begin, span.end});
  return list;
}

std::vector<Span> to_spans(const Value& list) {
  std::vector<Span> spans;
  for (const Value& pair : list.sequence()->items) {
    const fm::jinja::Values& ends = pair.sequence()->items;
    spans.push_back(
        {static_cast<std::size_t>(whole(ends[0])), static_cast<std::size_t>(whole(ends[1]))});
  }
  return spans;
}

json rendered(const Dict& fields) {
  const fm::jinja::Template parsed(*fields.find("template")->text(), "template");
  const fm::jinja::Rendered out =
      parsed.render(fields.find("variables")->dict()->entries, whole(*fields.find("now")));
  return {{"text", out.text}, {"generation", to_json(out.generation)}};
}

json samples(const Dict& fields) {
  const auto format = fm::chat::read_chat_format(*fields.find("folder")->text());
  const fm::chat::Record record = fm::chat::read_record(*fields.find("line"), "line");
  json list = json::array();
  for (const fm::chat::Sample& sample : samples_of(std::get<fm::chat::Conversation>(record),
                                                   *format, whole(*fields.find("now")), "line"))
    list.push_back({{"text", sample.text}, {"answers", to_json(sample.answers)}});
  return {{"samples", list}};
}

json trained(const Dict& fields) {
  const fm::chat::Sample sample{"", to_spans(*fields.find("answers")), false};
  json flags = json::array();
  for (const bool flag : trained_tokens(sample, to_spans(*fields.find("spans"))))
    flags.push_back(flag);
  return {{"trained", flags}};
}

json answer(const std::string& line) {
  try {
    const Value request = fm::jinja::parse_json(line, "stdin");
    const Dict& fields = *request.dict();
    if (fields.find("spans") != nullptr) return trained(fields);
    return fields.find("line") == nullptr ? rendered(fields) : samples(fields);
  } catch (const fm::core::UserError& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) std::cout << answer(line).dump() << std::endl;
  return 0;
}
