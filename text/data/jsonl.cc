#include <filesystem>
#include <optional>

#include "core/check.h"
#include "core/text.h"
#include "text/data/documents.h"

namespace fm::data {
namespace {

constexpr std::string_view kNoDocuments =
    ":1: at least one line with a JSON object is required; give a file with documents (";

bool blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

// The lines of a text that comes in pieces.
class Lines {
 public:
  Lines(const NextPiece& next_piece, const std::string& file_name)
      : next_piece_(next_piece), file_name_(file_name) {}

  // Without its end; valid until the next call. Throws UserError (11) for a line that is too long.
  std::optional<std::string_view> next() {
    ++number_;
    carried_.clear();
    std::size_t end = piece_.find('\n');
    while (end == std::string_view::npos) {
      carry(piece_);
      piece_ = next_piece_();
      if (piece_.empty())
        return carried_.empty() ? std::nullopt : std::optional<std::string_view>(carried_);
      end = piece_.find('\n');
    }
    const std::string_view line = piece_.substr(0, end);
    piece_.remove_prefix(end + 1);
    if (carried_.empty()) return line;
    carry(line);
    return carried_;
  }

  // "file:7", of the line that was read last.
  std::string place() const { return core::concat(file_name_, ":", number_); }
  std::int64_t number() const { return number_; }

 private:
  void carry(std::string_view part) {
    check_line(carried_.size() + part.size(), [&] { return place(); });
    carried_ += part;
  }

  const NextPiece& next_piece_;
  const std::string& file_name_;
  std::int64_t number_ = 0;
  std::string_view piece_;  // what is left of it
  std::string carried_;     // the start of a line, from earlier pieces
};

void take_bad_line(BadLines& bad, const std::string& problem) {
  const std::string before = bad.found == 0 ? ""
                                            : core::concat(" (--skip_bad_lines allows ",
                                                           core::counted(bad.allowed, "bad line"),
                                                           ", the first was ", bad.first, ")");
  ++bad.found;
  if (bad.first.empty()) bad.first = problem;
  FM_DATA_CHECK(bad.found <= bad.allowed, problem, before);
}

}  // namespace

void read_jsonl(const NextPiece& next_piece, const std::string& file_name,
                const LineReader& read_line, BadLines& bad,
                const std::function<void(const Document&)>& on_document) {
  std::int64_t documents = 0;
  const std::int64_t bad_before = bad.found;
  Lines lines(next_piece, file_name);
  Document document;
  while (const std::optional<std::string_view> line = lines.next()) {
    if (blank(*line)) continue;
    std::string problem = problem_in(*line);
    if (problem.empty()) problem = read_line(*line, document);
    if (!problem.empty()) {
      take_bad_line(bad, core::concat(lines.place(), ": ", problem));
      continue;
    }
    on_document(document);
    for (const std::string& field : document.unused) add_unused(field, 1, bad.unused);
    ++documents;
  }
  const std::int64_t skipped = bad.found - bad_before;
  FM_DATA_CHECK(documents > 0, file_name, kNoDocuments, lines.number() - 1 - skipped,
                " blank lines, ", skipped, " bad ones)");
}

void check_line(std::size_t bytes, const std::function<std::string()>& place) {
  if (bytes <= kMostLineBytes) return;
  FM_DATA_CHECK(false, place(), ": a line must have at most ",
                core::human(core::Bytes(kMostLineBytes)),
                "; cut the document, or write its parts in lines of their own (",
                core::human(core::Bytes(static_cast<std::int64_t>(bytes))), " and no end)");
}

std::string problem_in(std::string_view line) {
  return std::string(line.starts_with(kBadRow) ? line.substr(1) : "");
}

bool holds_ids(const std::string& path, RowLayout layout, const Columns& columns) {
  if (layout != RowLayout::kJsonLines && !is_table(layout)) return false;  // values are texts

  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  FileRows rows(path, layout);
  const NextPiece next_piece = [&] { return rows.next(); };
  Lines lines(next_piece, path);
  std::string bad;  // the first line that is no object
  while (const std::optional<std::string_view> line = lines.next()) {
    if (blank(*line)) continue;
    bool found = false;
    const std::string problem = find_input_ids(*line, columns, found);
    if (problem.empty()) return found;
    if (bad.empty()) bad = core::concat(lines.place(), ": ", problem);
  }
  if (bad.empty()) bad = core::concat(path, kNoDocuments, lines.number() - 1, " blank lines)");
  throw core::UserError(core::ExitCode::kDataError, bad);
}

}  // namespace fm::data
