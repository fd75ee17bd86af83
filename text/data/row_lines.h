// Rows of files as JSONL: whatever holds rows (text, CSV, tables) comes out as one JSON object a
// line, so that one reader makes documents of them all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace fm::data {

// How rows are written in a file.
enum class RowLayout : std::uint8_t {
  kJsonLines,   // also one JSON array
  kTextLines,   // {"text": LINE}
  kParagraphs,  // {"text": PARAGRAPH}: what is between empty lines
  kWholeFile,   // {"text": FILE}
  kCsv,         // a header, then values (RFC 4180); commas between them
  kTsv,         // tabs
  kParquet,
  kArrow,  // IPC, as stream or file
};

// "csv", as in a cache's identity.
std::string_view name_of(RowLayout layout);
// Whether an Arrow library reads the file (text/data/formats/table_rows.h).
bool is_table(RowLayout layout);
// Whether a row is a text without columns.
bool is_text(RowLayout layout);

// A line that begins so says what is wrong with its row: no JSON text begins with this byte.
inline constexpr char kBadRow = '\x1a';

// The next piece of a text, wherever it is cut; empty at the end. Valid until the next call.
using NextPiece = std::function<std::string_view()>;

// Line k is what line k of the file begins; where a row takes several lines, and for what is no
// row, there are blank lines. Of tables line k is row k.
class RowLines {
 public:
  virtual ~RowLines() = default;
  // The next piece of JSONL, as of NextPiece. Throws UserError (11) naming the file, and its line.
  virtual std::string_view next() = 0;
};

struct RowText {
  NextPiece next_piece;  // of the file, unpacked, from the beginning of a line
  std::string path;
  std::function<std::int64_t()> lines_before = {};  // in the file; null: it begins there
};
// Not for tables.
std::unique_ptr<RowLines> make_row_lines(RowLayout layout, RowText text);

// Appends `text` with quotes, as JSON has it.
void append_json(std::string& out, std::string_view text);
// What is wrong with bytes that must be UTF-8, or "".
std::string check_utf8(std::string_view text);

// A whole file. Thread: one.
class FileRows {
 public:
  // Throws UserError (11) naming the file when it cannot be read, (10) for a table where no library
  // reads it.
  FileRows(const std::string& path, RowLayout layout);
  ~FileRows();

  std::string_view next();
  // Of the content that came, unpacked; of a table, of its lines.
  std::int64_t bytes() const;
  std::uint32_t crc() const;

 private:
  class Content;
  std::unique_ptr<Content> content_;
};

}  // namespace fm::data
