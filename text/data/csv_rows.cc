#include "text/data/csv_rows.h"

#include <algorithm>
#include <set>
#include <vector>

#include "core/check.h"
#include "core/text.h"
#include "text/data/documents.h"

namespace fm::data {
namespace {

// Invariant: `fields_` are the values of the row that is being read, `field_` the last one of them.
class CsvRows : public RowLines {
 public:
  CsvRows(RowText text, char separator) : text_(std::move(text)), separator_(separator) {}

  std::string_view next() override {
    out_.clear();
    while (out_.empty() && !ended_) {
      std::string_view piece = text_.next_piece();
      ended_ = piece.empty();
      if (!started_) piece = core::without_byte_order_mark(piece);
      started_ = true;
      for (const char byte : piece) put(byte);
      check_line(kept_bytes(), [&] { return place(); });
      if (ended_) finish();
    }
    return out_;
  }

 private:
  enum class ValueState : std::uint8_t { kBegin, kPlain, kQuoted, kBehindQuote };

  void put(char byte) {
    if (byte == '\n') ++lines_;
    if (state_ == ValueState::kQuoted) {
      if (byte == '"') {
        state_ = ValueState::kBehindQuote;
      } else {
        field_ += byte;
      }
      return;
    }
    if (byte == separator_) {
      end_field();
    } else if (byte == '\n') {
      if (state_ == ValueState::kPlain && field_.ends_with('\r')) field_.pop_back();
      end_row();
    } else if (byte == '"' && state_ != ValueState::kPlain) {
      if (state_ == ValueState::kBehindQuote) field_ += byte;
      quoted_ = true;
      state_ = ValueState::kQuoted;
    } else {
      field_ += byte;
      state_ = ValueState::kPlain;
    }
  }

  void end_field() {
    fields_.push_back(std::move(field_));
    field_.clear();
    state_ = ValueState::kBegin;
  }

  void end_row() {
    end_field();
    const bool blank =
        fields_.size() == 1 && !quoted_ && fields_[0].find_first_not_of(' ') == std::string::npos;
    if (!blank && header_.empty()) {
      begin_header();
    } else if (!blank) {
      add_row();
    }
    out_.append(static_cast<std::size_t>(lines_), '\n');
    line_ += lines_;
    lines_ = 0;
    fields_.clear();
    quoted_ = false;
  }

  void finish() {
    FM_DATA_CHECK(state_ != ValueState::kQuoted, place(),
                  ": a quoted value must end with a quote; write a quote within it twice (the row ",
                  "that begins here goes to the end of the file)");
    if (fields_.empty() && field_.empty() && !quoted_) return;
    ++lines_;
    end_row();
  }

  void begin_header() {
    header_ = std::move(fields_);
    std::set<std::string> seen;
    for (std::size_t at = 0; at < header_.size(); ++at) {
      std::string& name = header_[at];
      const std::string problem = check_utf8(name);
      FM_DATA_CHECK(problem.empty(), place(), ": ", problem);
      if (name.empty()) name = core::concat("Unnamed: ", at);  // pandas' name
      FM_DATA_CHECK(seen.insert(name).second, place(),
                    ": a column must have a name of its own; rename one (\"", name, "\")");
    }
  }

  void add_row() {
    std::string problem;
    if (fields_.size() > header_.size()) {
      problem = core::concat("a row must have at most as many values as there are columns; put ",
                             "values that hold the separator into quotes (",
                             core::counted(fields_.size(), "value"), ", ",
                             core::counted(header_.size(), "column"), ")");
    }
    for (const std::string& field : fields_) {
      if (problem.empty()) problem = check_utf8(field);
    }
    if (!problem.empty()) {
      out_ += kBadRow + problem;
      return;
    }
    for (std::size_t at = 0; at < header_.size(); ++at) {
      out_ += at == 0 ? '{' : ',';
      append_json(out_, header_[at]);
      out_ += ':';
      if (at < fields_.size() && !fields_[at].empty()) {
        append_json(out_, fields_[at]);
      } else {
        out_ += "null";
      }
    }
    out_ += '}';
  }

  std::size_t kept_bytes() const {
    std::size_t bytes = field_.size();
    for (const std::string& field : fields_) bytes += field.size();
    return bytes;
  }

  // Of the row that is being read.
  std::string place() const { return core::concat(text_.path, ":", line_); }

  RowText text_;
  char separator_;
  bool started_ = false;
  bool ended_ = false;
  ValueState state_ = ValueState::kBegin;
  bool quoted_ = false;  // a value of the row
  std::vector<std::string> header_;
  std::vector<std::string> fields_;
  std::string field_;
  std::int64_t line_ = 1;   // at which the row begins
  std::int64_t lines_ = 0;  // line ends in it
  std::string out_;
};

}  // namespace

std::unique_ptr<RowLines> make_csv_rows(RowText text, char separator) {
  return std::make_unique<CsvRows>(std::move(text), separator);
}

}  // namespace fm::data
