#include "text/data/row_lines.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/check.h"
#include "core/crc32c.h"
#include "core/text.h"
#include "text/data/array_lines.h"
#include "text/data/csv_rows.h"
#include "text/data/documents.h"
#include "text/data/formats/table_rows.h"
#include "text/data/text_pieces.h"

namespace fm::data {
namespace {

class JsonRows : public RowLines {
 public:
  explicit JsonRows(RowText text) : text_(std::move(text)), array_(text_.path) {}
  std::string_view next() override { return array_.put(text_.next_piece()); }

 private:
  RowText text_;
  ArrayLines array_;
};

// Documents of a text, by lines, by paragraphs or all of it, with \n for \r\n.
class TextRows : public RowLines {
 public:
  TextRows(RowText text, RowLayout layout)
      : text_(std::move(text)), layout_(layout), begins_(!text_.lines_before) {}

  std::string_view next() override {
    out_.clear();
    while (out_.empty() && !ended_) {
      std::string_view piece = text_.next_piece();
      ended_ = piece.empty();
      if (std::exchange(begins_, false)) piece = core::without_byte_order_mark(piece);
      put(piece);
    }
    return out_;
  }

 private:
  // `piece` ends the text where it is empty.
  void put(std::string_view piece) {
    while (!piece.empty()) {
      const std::size_t end = piece.find('\n');
      const std::string_view part = piece.substr(0, end);
      check_line(document_.size() + part.size(), [&] { return place(); });
      document_ += part;
      if (end == piece.npos) return;
      piece.remove_prefix(end + 1);
      end_line();
    }
    if (!ended_) return;
    const bool whole = layout_ == RowLayout::kWholeFile;
    if (!document_.empty() || whole) end_document(document_);
  }

  void end_line() {
    if (document_.ends_with('\r')) document_.pop_back();
    ++lines_;
    if (layout_ == RowLayout::kTextLines) return end_document(document_);
    document_ += '\n';
    if (layout_ == RowLayout::kParagraphs && document_.ends_with("\n\n")) {
      end_document(std::string_view(document_).substr(0, document_.size() - 2));
    }
  }

  void end_document(std::string_view document) {
    const std::string problem = check_utf8(document);
    if (!problem.empty()) {
      out_ += kBadRow + problem;
    } else if (!document.empty()) {
      out_ += "{\"text\":";
      append_json(out_, document);
      out_ += '}';
    }
    out_.append(static_cast<std::size_t>(std::max<std::int64_t>(lines_, 1)), '\n');
    line_ += lines_;
    lines_ = 0;
    document_.clear();
  }

  std::string place() const {
    const std::int64_t before = text_.lines_before ? text_.lines_before() : 0;
    return core::concat(text_.path, ":", before + line_ + lines_);
  }

  RowText text_;
  RowLayout layout_;
  bool begins_;  // with the file
  bool ended_ = false;
  std::string document_;    // what has come of it
  std::int64_t line_ = 1;   // at which it begins
  std::int64_t lines_ = 0;  // line ends in it
  std::string out_;
};

// The length of the character of UTF-8 that begins a text; 0: there is none.
std::size_t character(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  if (byte(0) < 0x80) return 1;
  const std::size_t size = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < size) return 0;
  for (std::size_t at = 1; at < size; ++at) {
    if ((byte(at) & 0xC0U) != 0x80) return 0;
  }
  const bool overlong = (byte(0) == 0xE0 && byte(1) < 0xA0) || (byte(0) == 0xF0 && byte(1) < 0x90);
  const bool beyond = (byte(0) == 0xED && byte(1) > 0x9F) || (byte(0) == 0xF4 && byte(1) > 0x8F);
  return overlong || beyond ? 0 : size;
}

}  // namespace

std::string_view name_of(RowLayout layout) {
  switch (layout) {
    case RowLayout::kJsonLines: return "jsonl";
    case RowLayout::kTextLines: return "text by line";
    case RowLayout::kParagraphs: return "text by paragraph";
    case RowLayout::kWholeFile: return "text by document";
    case RowLayout::kCsv: return "csv";
    case RowLayout::kTsv: return "tsv";
    case RowLayout::kParquet: return "parquet";
    case RowLayout::kArrow: return "arrow";
  }
  return "?";
}

bool is_table(RowLayout layout) {
  return layout == RowLayout::kParquet || layout == RowLayout::kArrow;
}

bool is_text(RowLayout layout) {
  return layout == RowLayout::kTextLines || layout == RowLayout::kParagraphs ||
         layout == RowLayout::kWholeFile;
}

std::unique_ptr<RowLines> make_row_lines(RowLayout layout, RowText text) {
  switch (layout) {
    case RowLayout::kJsonLines: return std::make_unique<JsonRows>(std::move(text));
    case RowLayout::kTextLines:
    case RowLayout::kParagraphs:
    case RowLayout::kWholeFile: return std::make_unique<TextRows>(std::move(text), layout);
    case RowLayout::kCsv: return make_csv_rows(std::move(text), ',');
    case RowLayout::kTsv: return make_csv_rows(std::move(text), '\t');
    case RowLayout::kParquet:
    case RowLayout::kArrow: break;
  }
  FM_CHECK(false, "a table is no text");
}

void append_json(std::string& out, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += '"';
  for (const char byte : text) {
    const auto code = static_cast<unsigned char>(byte);
    if (code < 0x20) {
      out += "\\u00";
      out += kDigits[code >> 4U];
      out += kDigits[code & 15U];
      continue;
    }
    if (byte == '"' || byte == '\\') out += '\\';
    out += byte;
  }
  out += '"';
}

std::string check_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = character(text.substr(at));
    if (size == 0) {
      return core::concat("text must be UTF-8; convert the file, as with iconv -f LATIN1 -t UTF-8 ",
                          "(byte ", int{static_cast<unsigned char>(text[at])}, " at place ", at + 1,
                          ")");
    }
    at += size;
  }
  return "";
}

class FileRows::Content {
 public:
  Content(const std::string& path, RowLayout layout) {
    if (is_table(layout)) {
      rows_ = open_table(path, layout).rows;
      return;
    }
    text_.emplace(path);
    rows_ = make_row_lines(layout, {.next_piece = [this] { return text_->next(); }, .path = path});
  }

  std::string_view next() {
    const std::string_view piece = rows_->next();
    if (!text_) crc_ = core::crc32c(piece, crc_);
    if (!text_) bytes_ += std::ssize(piece);
    return piece;
  }
  std::int64_t bytes() const { return text_ ? text_->bytes() : bytes_; }
  std::uint32_t crc() const { return text_ ? text_->crc() : crc_; }

 private:
  std::optional<TextPieces> text_;
  std::unique_ptr<RowLines> rows_;
  std::int64_t bytes_ = 0;
  std::uint32_t crc_ = 0;
};

FileRows::FileRows(const std::string& path, RowLayout layout)
    : content_(std::make_unique<Content>(path, layout)) {}
FileRows::~FileRows() = default;
std::string_view FileRows::next() { return content_->next(); }
std::int64_t FileRows::bytes() const { return content_->bytes(); }
std::uint32_t FileRows::crc() const { return content_->crc(); }

}  // namespace fm::data
