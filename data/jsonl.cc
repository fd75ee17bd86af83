#include <nlohmann/json.hpp>
#include <optional>

#include "core/check.h"
#include "data/documents.h"

namespace fm::data {
namespace {

using nlohmann::json;

// Keeps the wanted field of a top-level object, looks at nothing else.
class FieldSax : public json::json_sax_t {
 public:
  explicit FieldSax(std::string_view field) : field_(field) {}

  bool null() override { return value("null"); }
  bool boolean(bool) override { return value("a boolean"); }
  bool number_integer(number_integer_t) override { return value("a number"); }
  bool number_unsigned(number_unsigned_t) override { return value("a number"); }
  bool number_float(number_float_t, const string_t&) override { return value("a number"); }
  bool binary(binary_t&) override { return value("binary"); }
  bool string(string_t& text) override {
    if (wanted()) {
      text_.swap(text);
      at_field_ = false;
      return true;
    }
    return value("a string");
  }
  bool start_object(std::size_t) override {
    const bool fine = depth_ == 0 || value("an object");
    ++depth_;
    return fine;
  }
  bool start_array(std::size_t) override {
    const bool fine = value("an array");
    ++depth_;
    return fine;
  }
  bool end_object() override { return --depth_, true; }
  bool end_array() override { return --depth_, true; }
  bool key(string_t& name) override {
    if (depth_ != 1 || name != field_) return true;
    at_field_ = true;
    if (++seen_ > 1) return refuse("it is there twice");
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const json::exception& error) override {
    const std::string_view what = error.what();
    const std::size_t detail = what.find(": ");
    problem_ = core::concat("each line must be one JSON object; correct the line (byte ", position,
                            what.substr(detail == std::string_view::npos ? 0 : detail), ")");
    return false;
  }

  int seen() const { return seen_; }
  const std::string& text() const { return text_; }
  const std::string& problem() const { return problem_; }

 private:
  bool wanted() const { return depth_ == 1 && at_field_; }
  // A value of another type: fine anywhere but at the top and in the wanted field.
  bool value(std::string_view kind) {
    if (wanted()) return refuse(core::concat("it is ", kind));
    if (depth_ > 0) return true;
    problem_ =
        core::concat("each line must be one JSON object; correct the line (it is ", kind, ")");
    return false;
  }
  bool refuse(const std::string& why) {
    problem_ = core::concat("field \"", field_, "\" must be one string; correct the line or name ",
                            "another field (", why, ")");
    return false;
  }

  std::string_view field_;
  std::string text_;
  std::string problem_;
  int depth_ = 0;
  int seen_ = 0;
  bool at_field_ = false;
};

bool blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

// The lines of a text that comes in pieces.
class LineReader {
 public:
  explicit LineReader(const NextPiece& next_piece) : next_piece_(next_piece) {}

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

}  // namespace

void read_jsonl(const NextPiece& next_piece, const std::string& file_name, std::string_view field,
                const std::function<void(std::string_view)>& on_document) {
  std::int64_t line_number = 0;
  std::int64_t documents = 0;
  LineReader lines(next_piece);
  while (const std::optional<std::string_view> line = lines.next()) {
    ++line_number;
    if (blank(*line)) continue;
    FieldSax sax(field);
    const bool parsed = json::sax_parse(line->begin(), line->end(), &sax);
    FM_DATA_CHECK(parsed, file_name, ":", line_number, ": ", sax.problem());
    FM_DATA_CHECK(sax.seen() == 1, file_name, ":", line_number, ": field \"", field,
                  "\" is required; add it, or name another with --text_field");
    on_document(sax.text());
    ++documents;
  }
  FM_DATA_CHECK(
      documents > 0, file_name,
      ":1: at least one line with a JSON object is required; give a file with documents (",
      line_number, " blank lines)");
}

}  // namespace fm::data
