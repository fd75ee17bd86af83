#include "text/prepare/tokenized_lines.h"

namespace fm::prepare {
namespace {

void add(const data::Document& document, TokenizedLines& out) {
  const std::size_t before = out.ids.size();
  out.ids.insert(out.ids.end(), document.ids.begin(), document.ids.end());
  out.lengths.push_back(static_cast<std::int32_t>(document.ids.size()));
  if (document.labels.empty() && out.counted.empty()) return;
  out.counted.resize(before, 1);
  if (document.labels.empty()) {
    out.counted.resize(out.ids.size(), 1);
    return;
  }
  for (std::size_t at = 0; at < document.labels.size(); ++at) {
    const std::int32_t label = document.labels[at];
    out.counted.push_back(label == data::kIgnored ? 0 : 1);
    if (label == data::kIgnored || label == document.ids[at]) continue;
    out.labels.push_back({static_cast<std::int64_t>(before + at), label});
  }
}

}  // namespace

TokenizedLines tokenize_lines(std::string_view text, const ReadLine& read_line) {
  TokenizedLines out;
  std::vector<data::Document> documents;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++out.lines;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    std::string problem = data::problem_in(line);
    if (problem.empty()) problem = read_line(line, documents);
    if (problem.empty()) {
      for (const data::Document& document : documents) {
        add(document, out);
        for (const std::string& field : document.unused) data::add_unused(field, 1, out.unused);
      }
    } else {
      out.bad.push_back({out.lines - 1, std::move(problem)});
    }
  }
  return out;
}

}  // namespace fm::prepare
