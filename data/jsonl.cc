#include <filesystem>
#include <optional>
#include <utility>

#include "core/check.h"
#include "data/array_lines.h"
#include "data/documents.h"
#include "data/text_pieces.h"

namespace fm::data {
namespace {

bool blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

// The lines of a text that comes in pieces.
class Lines {
 public:
  explicit Lines(const NextPiece& next_piece) : next_piece_(next_piece) {}

  // Without its end; valid until the next call.
  std::optional<std::string_view> next() {
    carried_.clear();
    std::size_t end = piece_.find('\n');
    while (end == std::string_view::npos) {
      carried_ += piece_;
      piece_ = next_piece_();
      if (piece_.empty())
        return carried_.empty() ? std::nullopt : std::optional<std::string_view>(carried_);
      end = piece_.find('\n');
    }
    const std::string_view line = piece_.substr(0, end);
    piece_.remove_prefix(end + 1);
    if (carried_.empty()) return line;
    return carried_ += line;
  }

 private:
  const NextPiece& next_piece_;
  std::string_view piece_;  // what is left of it
  std::string carried_;     // the start of a line, from earlier pieces
};

void take_bad_line(BadLines& bad, const std::string& problem) {
  const std::string before = bad.found == 0
                                 ? ""
                                 : core::concat(" (--skip_bad_lines allows ", bad.allowed,
                                                " bad lines, the first was ", bad.first, ")");
  ++bad.found;
  if (bad.first.empty()) bad.first = problem;
  FM_DATA_CHECK(bad.found <= bad.allowed, problem, before);
}

}  // namespace

void read_jsonl(const NextPiece& next_piece, const std::string& file_name,
                const LineReader& read_line, BadLines& bad,
                const std::function<void(const Document&)>& on_document) {
  std::int64_t line_number = 0;
  std::int64_t documents = 0;
  const std::int64_t bad_before = bad.found;
  Lines lines(next_piece);
  Document document;
  while (const std::optional<std::string_view> line = lines.next()) {
    ++line_number;
    if (blank(*line)) continue;
    const std::string problem = read_line(*line, document);
    if (!problem.empty()) {
      take_bad_line(bad, core::concat(file_name, ":", line_number, ": ", problem));
      continue;
    }
    on_document(document);
    for (const std::string& field : document.unused) add_unused(field, 1, bad.unused);
    ++documents;
  }
  const std::int64_t skipped = bad.found - bad_before;
  FM_DATA_CHECK(
      documents > 0, file_name,
      ":1: at least one line with a JSON object is required; give a file with documents (",
      line_number - skipped, " blank lines, ", skipped, " bad ones)");
}

bool holds_ids(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  TextPieces pieces(path);
  ArrayLines array(path);
  // The first piece is enough: it holds a whole line, or nothing that could be read.
  const auto once = [&, read = false]() mutable {
    return std::exchange(read, true) ? std::string_view() : array.put(pieces.next());
  };
  const NextPiece first_piece = once;
  Lines lines(first_piece);
  while (const std::optional<std::string_view> line = lines.next()) {
    const std::optional<bool> found = names_input_ids(*line);
    if (found) return *found;
  }
  return false;
}

}  // namespace fm::data
