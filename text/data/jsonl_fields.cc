// What one line of a JSONL file says.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/check.h"
#include "text/data/row_fields.h"

namespace fm::data {
namespace {

using nlohmann::json;

// Walks over a line that must be one object, and says what is wrong otherwise.
class LineSax : public json::json_sax_t {
 public:
  bool null() override { return value("null"); }
  bool boolean(bool) override { return value("a boolean"); }
  bool number_integer(number_integer_t) override { return value("a number"); }
  bool number_unsigned(number_unsigned_t) override { return value("a number"); }
  bool number_float(number_float_t, const string_t&) override { return value("a number"); }
  bool binary(binary_t&) override { return value("binary"); }
  bool string(string_t&) override { return value("a string"); }
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
  bool parse_error(std::size_t position, const std::string&,
                   const json::exception& error) override {
    const std::string_view what = error.what();
    const std::size_t detail = what.find(": ");
    problem_ = core::concat("each line must be one JSON object; correct the line (byte ", position,
                            what.substr(detail == std::string_view::npos ? 0 : detail), ")");
    return false;
  }

  const std::string& problem() const { return problem_; }

 protected:
  // A value of a kind that is not asked for here.
  virtual bool other_value(std::string_view kind) = 0;
  int depth() const { return depth_; }
  bool refuse(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

 private:
  bool value(std::string_view kind) {
    if (depth_ > 0) return other_value(kind);
    return refuse(
        core::concat("each line must be one JSON object; correct the line (it is ", kind, ")"));
  }

  std::string problem_;
  int depth_ = 0;
};

// Keeps the wanted field of a top-level object, looks at nothing else.
class FieldSax : public LineSax {
 public:
  explicit FieldSax(std::string_view field) : field_(field) {}

  // A field that is null is not there.
  bool null() override {
    if (depth() != 1 || !at_field_) return LineSax::null();
    at_field_ = false;
    --seen_;
    return true;
  }

  bool string(string_t& text) override {
    if (depth() != 1 || !at_field_) return LineSax::string(text);
    text_.swap(text);
    at_field_ = false;
    return true;
  }
  bool key(string_t& name) override {
    if (depth() != 1 || name != field_) return true;
    at_field_ = true;
    return ++seen_ == 1 || refuse_field("it is there twice");
  }

  int seen() const { return seen_; }
  std::string& text() { return text_; }

 private:
  bool other_value(std::string_view kind) override {
    return depth() != 1 || !at_field_ || refuse_field(core::concat("it is ", kind));
  }
  bool refuse_field(const std::string& why) {
    return refuse(core::concat("field \"", field_, "\" must be one string; correct the line or ",
                               "name another field (", why, ")"));
  }

  std::string_view field_;
  std::string text_;
  int seen_ = 0;
  bool at_field_ = false;
};

// Looks for a key of a top-level object, whatever its value.
class KeySax : public LineSax {
 public:
  explicit KeySax(std::string_view key) : key_(key) {}

  bool key(string_t& name) override {
    found_ = found_ || (depth() == 1 && name == key_);
    return true;
  }
  bool found() const { return found_; }

 private:
  bool other_value(std::string_view) override { return true; }

  std::string_view key_;
  bool found_ = false;
};

// Keeps the lists of a tokenized document.
class IdsSax : public LineSax {
 public:
  explicit IdsSax(std::int64_t vocab) : vocab_(vocab) {}

  bool number_integer(number_integer_t number) override {
    return open_ ? take(number) : LineSax::number_integer(number);
  }
  bool number_unsigned(number_unsigned_t number) override {
    constexpr auto kMost = static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max());
    if (!open_) return LineSax::number_unsigned(number);
    return take(static_cast<std::int64_t>(std::min(number, kMost)));
  }
  bool start_array(std::size_t size) override {
    if (depth() == 1 && !why_refused_.empty()) return refuse(why_refused_);
    if (depth() == 1 && at_)
      open_ = std::exchange(at_, std::nullopt);
    else if (open_)
      return other_value("an array");
    return begin_array(size);
  }
  bool end_array() override {
    if (depth() == 2) open_.reset();
    return LineSax::end_array();
  }
  bool key(string_t& name) override {
    if (depth() != 1) return true;
    const std::string_view why = why_refused(name);
    why_refused_ = why.empty() ? "" : core::concat("field \"", name, "\" ", why);
    at_ = find_row_field(name);
    if (!at_) {
      unused_.push_back(name);
      return true;
    }
    const bool first = !row_[*at_];
    row_[*at_].emplace();
    return first || refuse_field(*at_, "it is there twice");
  }

  // "" when the document is whole.
  std::string finish(Document& document) {
    if (!row_[0]) return "field \"input_ids\" is required; add it";
    document.unused = std::move(unused_);
    return make_document(row_, document);
  }

 private:
  // Where the array of a field opens, no value of another kind is met.
  bool begin_array(std::size_t size) {
    expects_array_ = open_.has_value();
    const bool fine = LineSax::start_array(size);
    expects_array_ = false;
    return fine;
  }
  bool other_value(std::string_view kind) override {
    if (expects_array_) return true;
    if (open_) return refuse_field(*open_, core::concat("it holds ", kind));
    if (depth() == 1 && at_) return refuse_field(*at_, core::concat("it is ", kind));
    return true;
  }
  bool take(std::int64_t number) {
    std::vector<std::int32_t>& numbers = *row_[*open_];
    if (!may_hold(kRowFields[*open_].meaning, number, vocab_)) {
      return refuse_field(*open_, core::concat("number ", number, " at position ", numbers.size(),
                                               ", vocab_size=", vocab_));
    }
    numbers.push_back(static_cast<std::int32_t>(number));
    return true;
  }
  bool refuse_field(std::size_t field, const std::string& why) {
    return refuse(
        core::concat("field \"", kRowFields[field].name, "\" must be one list of whole numbers in ",
                     range_of(kRowFields[field].meaning), "; correct the line (", why, ")"));
  }

  Row row_;
  std::vector<std::string> unused_;
  std::int64_t vocab_;
  std::optional<std::size_t> at_;    // the field whose value comes next
  std::optional<std::size_t> open_;  // the field in whose list we are
  std::string why_refused_;          // if the value that comes next is a list
  bool expects_array_ = false;
};

}  // namespace

LineReader text_reader(const std::string& field) {
  return [field](std::string_view line, Document& document) -> std::string {
    FieldSax sax(field);
    if (!json::sax_parse(line.begin(), line.end(), &sax)) return sax.problem();
    if (sax.seen() == 0) {
      return core::concat("field \"", field,
                          "\" is required; add it, or name another with --text_field");
    }
    document.ids = encode_bytes(sax.text());
    document.ids.push_back(core::kEosId);
    return "";
  };
}

LineReader ids_reader(std::int64_t vocab) {
  return [vocab](std::string_view line, Document& document) -> std::string {
    IdsSax sax(vocab);
    if (!json::sax_parse(line.begin(), line.end(), &sax)) return sax.problem();
    document = {};
    return sax.finish(document);
  };
}

std::string find_input_ids(std::string_view line, bool& found) {
  KeySax sax("input_ids");
  if (!json::sax_parse(line.begin(), line.end(), &sax)) return sax.problem();
  found = sax.found();
  return "";
}

}  // namespace fm::data
