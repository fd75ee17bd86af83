#include "core/json_tree.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/check.h"

namespace fm::core {

using nlohmann::json;

std::string_view name_of(JsonKind kind) {
  switch (kind) {
    case JsonKind::kNull: return "null";
    case JsonKind::kBool: return "a boolean";
    case JsonKind::kNumber: return "a number";
    case JsonKind::kString: return "a string";
    case JsonKind::kArray: return "an array";
    case JsonKind::kObject: break;
  }
  return "an object";
}

std::optional<std::uint64_t> JsonScalar::unsigned_integer() const {
  if (is_integer)
    return has_minus ? std::nullopt : std::optional(static_cast<std::uint64_t>(integer));
  if (kind != JsonKind::kNumber) return std::nullopt;
  std::uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

bool JsonVisitor::refuse(std::string why) {
  why_refused_ = std::move(why);
  return false;
}

// Turns the library's events into a visitor's.
class JsonEvents final : public json::json_sax_t {
 public:
  explicit JsonEvents(JsonVisitor& visitor) : visitor_(visitor) {}

  bool null() override { return put(JsonKind::kNull); }
  bool boolean(bool value) override {
    scalar_.boolean = value;
    return put(JsonKind::kBool);
  }
  bool number_integer(number_integer_t value) override {
    scalar_.has_minus = true;
    return put_integer(value);
  }
  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto kMost = static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max());
    scalar_.has_minus = false;
    return value <= kMost ? put_integer(static_cast<std::int64_t>(value)) : put_large(value);
  }
  bool number_float(number_float_t value, const string_t& digits) override {
    scalar_.number = value;
    scalar_.digits = digits;
    return put(JsonKind::kNumber);
  }
  bool string(string_t& value) override {
    scalar_.text = &value;
    return put(JsonKind::kString);
  }
  bool binary(binary_t&) override { return false; }  // JSON has none
  bool start_object(std::size_t) override { return open(JsonKind::kObject); }
  bool start_array(std::size_t) override { return open(JsonKind::kArray); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override { return visitor_.key(name); }
  bool parse_error(std::size_t position, const std::string&,
                   const json::exception& error) override {
    const std::string_view what = error.what();  // "[json.exception.parse_error.101] parse error.."
    const std::size_t tag = what.find("] ");
    problem_ = {position, std::string(what.substr(tag == what.npos ? 0 : tag + 2))};
    return false;
  }

  JsonProblem problem() {
    if (problem_.byte == 0) problem_.reason = std::move(visitor_.why_refused_);
    return std::move(problem_);
  }

 private:
  bool put(JsonKind kind) {
    scalar_.kind = kind;
    scalar_.is_integer = false;
    return visitor_.scalar(scalar_);
  }
  bool put_integer(std::int64_t value) {
    scalar_.kind = JsonKind::kNumber;
    scalar_.is_integer = true;
    scalar_.integer = value;
    return visitor_.scalar(scalar_);
  }
  // Out of the way of rows of numbers.
  [[gnu::noinline]] bool put_large(number_unsigned_t value) {
    return number_float(static_cast<double>(value), std::to_string(value));
  }
  bool open(JsonKind kind) {
    const bool goes_on = visitor_.open(kind);
    ++visitor_.depth_;
    return goes_on;
  }
  bool close() {
    --visitor_.depth_;
    return visitor_.close();
  }

  JsonVisitor& visitor_;
  JsonScalar scalar_;
  JsonProblem problem_;
};

std::optional<JsonProblem> read_json(std::string_view text, JsonVisitor& visitor) {
  JsonEvents events(visitor);
  if (json::sax_parse(text.begin(), text.end(), &events)) return std::nullopt;
  return events.problem();
}

const JsonTree* JsonTree::member(std::string_view key) const {
  const auto last = std::find_if(members.rbegin(), members.rend(),
                                 [&](const Member& member) { return member.key == key; });
  return last == members.rend() ? nullptr : &last->value;
}

const JsonTree& JsonTree::as(JsonKind required) const {
  if (kind == required) return *this;
  if (required == JsonKind::kBool) refuse("true or false is required; correct the file");
  refuse(concat(name_of(required), " is required here; correct the file"));
}

std::int64_t JsonTree::whole() const {
  const double value = real();
  const bool fits = value >= -1e9 && value <= 4.3e9;
  const auto whole = fits ? static_cast<std::int64_t>(value) : 0;
  if (!fits || static_cast<double>(whole) != value) {
    refuse(concat("a whole number is required here; correct the file (", value, ")"));
  }
  return whole;
}

std::int64_t JsonTree::count(double most) const {
  const bool is_number = kind == JsonKind::kNumber;
  const bool is_integer = is_number && text.find_first_of(".eE") == std::string::npos;
  if (!is_integer || number < 0 || number > most) {
    refuse(concat("an integer from 0 to ", static_cast<std::int64_t>(most),
                  " is required; correct the file", is_number ? concat(" (", number, ")") : ""));
  }
  return static_cast<std::int64_t>(number);
}

void JsonTree::refuse(const std::string& what) const { FM_DATA_CHECK(false, where, ": ", what); }

const JsonTree* JsonTree::find(std::string_view key) const {
  const JsonTree* const found = as(JsonKind::kObject).member(key);
  return found == nullptr || found->kind == JsonKind::kNull ? nullptr : found;
}

const JsonTree& JsonTree::at(std::string_view key) const {
  const JsonTree* const found = find(key);
  if (found == nullptr) refuse(concat("key \"", key, "\" is required; correct the file"));
  return *found;
}

std::string JsonTree::string_or(std::string_view key, std::string_view absent) const {
  const JsonTree* const found = find(key);
  return found == nullptr ? std::string(absent) : found->string();
}

bool JsonTree::flag_or(std::string_view key, bool absent) const {
  const JsonTree* const found = find(key);
  return found == nullptr ? absent : found->flag();
}

bool JsonTreeBuilder::scalar(JsonScalar& value) {
  JsonTree& added = add();
  added.kind = value.kind;
  if (value.kind == JsonKind::kBool) added.boolean = value.boolean;
  if (value.kind == JsonKind::kString) added.text.swap(*value.text);
  if (value.kind != JsonKind::kNumber) return true;
  added.number = value.is_integer ? static_cast<double>(value.integer) : value.number;
  added.text = value.is_integer ? std::to_string(value.integer) : std::string(value.digits);
  return true;
}

bool JsonTreeBuilder::open(JsonKind kind) {
  FM_DATA_CHECK(depth() < kMostTreeDepth, root.where, ": at most ", kMostTreeDepth,
                " levels of JSON are read; correct the file");
  JsonTree& added = add();
  added.kind = kind;
  open_.push_back(&added);
  return true;
}

bool JsonTreeBuilder::close() {
  open_.pop_back();
  return true;
}

bool JsonTreeBuilder::key(std::string& name) {
  key_.swap(name);
  return true;
}

// The next value of the innermost open array or object.
JsonTree& JsonTreeBuilder::add() {
  if (open_.empty()) return root;
  JsonTree& parent = *open_.back();
  if (parent.kind == JsonKind::kArray) {
    std::string where = concat(parent.where, '[', parent.items.size(), ']');
    JsonTree& item = parent.items.emplace_back();
    item.where = std::move(where);
    return item;
  }
  JsonTree& value = parent.members.emplace_back(JsonTree::Member{key_, {}}).value;
  value.where = concat(parent.where, open_.size() == 1 ? ": " : ".", key_);
  return value;
}

void build_tree(std::string_view text, JsonTreeBuilder& builder) {
  const std::optional<JsonProblem> problem = read_json(text, builder);
  FM_DATA_CHECK(!problem, builder.root.where,
                ": one JSON value is required; correct the file (byte ", problem->byte, ": ",
                problem->reason, ")");
}

JsonTree parse_json(std::string_view text, const std::string& name) {
  JsonTreeBuilder builder(name);
  build_tree(text, builder);
  return std::move(builder.root);
}

}  // namespace fm::core
