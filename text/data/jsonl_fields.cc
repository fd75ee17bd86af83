// What one line of a JSONL file says.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "core/check.h"
#include "core/json_tree.h"
#include "text/data/row_fields.h"

namespace fm::data {
namespace {

using core::JsonKind;

// Walks over a line that must be one object.
class LineVisitor : public core::JsonVisitor {
 public:
  bool scalar(core::JsonScalar& value) override { return depth() > 0 || refuse_line(value.kind); }
  bool open(JsonKind kind) override {
    return depth() > 0 || kind == JsonKind::kObject || refuse_line(kind);
  }
  bool close() override { return true; }

 private:
  bool refuse_line(JsonKind kind) {
    return refuse(core::concat("each line must be one JSON object; correct the line (it is ",
                               core::name_of(kind), ")"));
  }
};

// "" when the whole line was read.
std::string read_line(std::string_view line, LineVisitor& visitor) {
  const std::optional<core::JsonProblem> problem = core::read_json(line, visitor);
  if (!problem) return "";
  if (problem->byte == 0) return problem->reason;
  const std::size_t place = problem->reason.find(": ");  // what is before it repeats the byte
  return core::concat("each line must be one JSON object; correct the line (byte ", problem->byte,
                      ": ", problem->reason.substr(place == std::string::npos ? 0 : place + 2),
                      ")");
}

// Keeps the wanted field of a top-level object, looks at nothing else.
class FieldVisitor final : public LineVisitor {
 public:
  FieldVisitor(std::string_view field, const Columns& columns) : field_(field), columns_(columns) {}

  bool scalar(core::JsonScalar& value) override {
    if (depth() != 1 || !at_field_) return LineVisitor::scalar(value);
    at_field_ = false;
    switch (value.kind) {
      case JsonKind::kNull: return --seen_, true;  // a field that is null is not there
      case JsonKind::kString: return text_.swap(*value.text), true;
      case JsonKind::kBool:
      case JsonKind::kNumber:
      case JsonKind::kArray:
      case JsonKind::kObject: break;
    }
    return refuse_kind(value.kind);
  }
  bool open(JsonKind kind) override {
    return depth() == 1 && at_field_ ? refuse_kind(kind) : LineVisitor::open(kind);
  }
  bool key(std::string& name) override {
    if (depth() != 1 || columns_.meaning_of(name) != field_) return true;
    at_field_ = true;
    return ++seen_ == 1 || refuse_field("it is there twice");
  }

  int seen() const { return seen_; }
  std::string& text() { return text_; }

 private:
  bool refuse_kind(JsonKind kind) {
    return refuse_field(core::concat("it is ", core::name_of(kind)));
  }
  bool refuse_field(const std::string& why) {
    return refuse(core::concat("field \"", field_, "\" must be one string; correct the line or ",
                               "name another field (", why, ")"));
  }

  std::string_view field_;
  const Columns& columns_;
  std::string text_;
  int seen_ = 0;
  bool at_field_ = false;
};

// Looks for a key of a top-level object, whatever its value.
class KeyVisitor final : public LineVisitor {
 public:
  KeyVisitor(std::string_view key, const Columns& columns) : key_(key), columns_(columns) {}

  bool key(std::string& name) override {
    found_ = found_ || (depth() == 1 && columns_.meaning_of(name) == key_);
    return true;
  }
  bool found() const { return found_; }

 private:
  std::string_view key_;
  const Columns& columns_;
  bool found_ = false;
};

// Keeps the lists of a tokenized document.
class IdsVisitor final : public LineVisitor {
 public:
  IdsVisitor(std::int64_t vocab, const Columns& columns) : vocab_(vocab), columns_(columns) {}

  bool scalar(core::JsonScalar& value) override {
    if (numbers_ == nullptr) {
      return depth() == 1 && at_ ? refuse_kind("is ", value.kind) : LineVisitor::scalar(value);
    }
    return value.is_integer ? take(value.integer) : take_other(value);
  }
  bool open(JsonKind kind) override {
    if (numbers_ != nullptr) return refuse_kind("holds ", kind);
    if (depth() != 1) return LineVisitor::open(kind);
    if (kind != JsonKind::kArray) return !at_ || refuse_kind("is ", kind);
    if (!why_refused_.empty()) return refuse(why_refused_);
    if (at_) numbers_ = &*row_[*at_];
    return true;
  }
  bool close() override {
    if (depth() > 1) return true;
    numbers_ = nullptr;
    at_.reset();
    return true;
  }
  bool key(std::string& name) override {
    if (depth() != 1) return true;
    if (!columns_.empty()) {
      names_.push_back(name);
      name = columns_.meaning_of(name);
    }
    const std::string_view why = why_refused(name);
    why_refused_ = why.empty() ? "" : core::concat("field \"", name, "\" ", why);
    at_ = find_row_field(name);
    if (!at_) {
      unused_.push_back(name);
      return true;
    }
    const bool first = !row_[*at_];
    row_[*at_].emplace();
    return first || refuse_field("it is there twice");
  }

  // "" when the document is whole.
  std::string finish(Document& document) {
    if (!columns_.empty()) {
      std::string problem = columns_.check(names_);
      if (!problem.empty()) return problem;
    }
    if (!row_[0]) return "field \"input_ids\" is required; add it";
    document.unused = std::move(unused_);
    return make_document(row_, document);
  }

 private:
  bool take(std::int64_t number) {
    if (!may_hold(kRowFields[*at_].meaning, number, vocab_)) return refuse_number(number);
    numbers_->push_back(static_cast<std::int32_t>(number));
    return true;
  }
  [[gnu::cold]] bool take_other(const core::JsonScalar& value) {
    if (value.unsigned_integer()) return take(std::numeric_limits<std::int64_t>::max());
    return refuse_kind("holds ", value.kind);
  }
  [[gnu::cold]] bool refuse_number(std::int64_t number) {
    return refuse_field(core::concat("number ", number, " at position ", numbers_->size(),
                                     ", vocab_size=", vocab_));
  }
  [[gnu::cold]] bool refuse_kind(const char* verb, JsonKind kind) {
    return refuse_field(core::concat("it ", verb, core::name_of(kind)));
  }
  bool refuse_field(const std::string& why) {
    const RowField& field = kRowFields[*at_];
    return refuse(core::concat("field \"", field.name, "\" must be one list of whole numbers in ",
                               range_of(field.meaning), "; correct the line (", why, ")"));
  }

  Row row_;
  std::vector<std::string> unused_;
  std::int64_t vocab_;
  const Columns& columns_;
  std::vector<std::string> names_;                // of all columns, where some have meanings
  std::optional<std::size_t> at_;                 // the field whose value comes next, or is open
  std::vector<std::int32_t>* numbers_ = nullptr;  // of its list, where that is open
  std::string why_refused_;                       // if the value that comes next is a list
};

}  // namespace

LineReader text_reader(const std::string& field, const Columns& columns) {
  return [field, columns](std::string_view line, Document& document) -> std::string {
    FieldVisitor visitor(field, columns);
    if (std::string problem = read_line(line, visitor); !problem.empty()) return problem;
    if (visitor.seen() == 0) {
      return core::concat("field \"", field,
                          "\" is required; add it, or name another with --text_field (bytes are "
                          "made of texts; chats need a tokenizer's folder, or --chat_template)");
    }
    document.ids = encode_bytes(visitor.text());
    document.ids.push_back(core::kEosId);
    return "";
  };
}

LineReader ids_reader(std::int64_t vocab, const Columns& columns) {
  return [vocab, columns](std::string_view line, Document& document) -> std::string {
    IdsVisitor visitor(vocab, columns);
    if (std::string problem = read_line(line, visitor); !problem.empty()) return problem;
    document = {};
    return visitor.finish(document);
  };
}

std::string find_input_ids(std::string_view line, const Columns& columns, bool& found) {
  KeyVisitor visitor("input_ids", columns);
  std::string problem = read_line(line, visitor);
  found = visitor.found();
  return problem;
}

}  // namespace fm::data
