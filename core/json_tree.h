// JSON (RFC 8259, UTF-8) has one reader, read_json: a visitor meets the values of a text one by
// one. The tree is one visitor; rows of numbers, chats and headers of weights have their own. HJSON
// becomes the same tree (cli/deepspeed/hjson.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fm::core {

enum class JsonKind : std::uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };
// "null", "a boolean", "a number", "an object": for messages.
std::string_view name_of(JsonKind kind);

// A value that holds no other. What a field says is valid where its kind is.
struct JsonScalar {
  JsonKind kind = JsonKind::kNull;
  bool is_integer = false;  // a number without point and exponent that fits the field below
  bool has_minus = false;   // such a number: -0, too
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0;            // any other number, rounded to the nearest
  std::string_view digits;      // of any other number, as it is written
  std::string* text = nullptr;  // a visitor may move it away

  // What is written as an integer without a sign and fits.
  std::optional<std::uint64_t> unsigned_integer() const;
};

// Each function returns false to end the reading.
class JsonVisitor {
 public:
  virtual ~JsonVisitor() = default;
  virtual bool scalar(JsonScalar& value) = 0;
  virtual bool open(JsonKind kind) = 0;     // an array or object begins
  virtual bool close() = 0;                 // the innermost one ends
  virtual bool key(std::string& name) = 0;  // of the value that follows; it may be moved away

 protected:
  // Arrays and objects around what is met; one that opens or closes is not around itself.
  std::size_t depth() const { return depth_; }
  bool refuse(std::string why);  // false

 private:
  friend class JsonEvents;
  std::size_t depth_ = 0;
  std::string why_refused_;
};

struct JsonProblem {
  std::size_t byte = 0;  // 1-based, where the text is no JSON; 0: the visitor ended the reading
  std::string reason;
};
// Reads one value, with nothing but white space around it. Nothing: all was read. The stack does
// not grow with the depth of the text.
std::optional<JsonProblem> read_json(std::string_view text, JsonVisitor& visitor);

// Trees are copied and destroyed by recursion, so nothing nests deeper in one.
inline constexpr std::size_t kMostTreeDepth = 64;

// A value that knows its place.
struct JsonTree {
  struct Member;

  JsonKind kind = JsonKind::kNull;
  bool boolean = false;
  double number = 0;
  std::string text;  // of a string; of a number its digits
  std::vector<JsonTree> items;
  std::vector<Member> members;  // in the order of the text
  int line = 0;                 // 1-based; of HJSON alone
  std::string where;            // "tokenizer.json: model.added[1]"; of JSON alone

  bool is_object() const { return kind == JsonKind::kObject; }
  // Null when there is none, or this is no object; of equal keys the last one counts.
  const JsonTree* member(std::string_view key) const;

  // What stands at `where` must be of the kind that is asked for: UserError (11) otherwise.
  const JsonTree& as(JsonKind required) const;
  const std::vector<JsonTree>& array() const { return as(JsonKind::kArray).items; }
  const std::vector<Member>& object() const { return as(JsonKind::kObject).members; }
  const std::string& string() const { return as(JsonKind::kString).text; }
  double real() const { return as(JsonKind::kNumber).number; }
  bool flag() const { return as(JsonKind::kBool).boolean; }
  std::int64_t whole() const;             // from -1e9 to 4.3e9, however it is written
  std::int64_t count(double most) const;  // written as an integer, from 0 to `most`
  [[noreturn]] void refuse(const std::string& what) const;

  // Members of an object; one that is null is absent.
  const JsonTree* find(std::string_view key) const;
  const JsonTree& at(std::string_view key) const;
  std::string string_or(std::string_view key, std::string_view absent) const;
  bool flag_or(std::string_view key, bool absent) const;
};

struct JsonTree::Member {
  std::string key;
  JsonTree value;
};

// Keeps what it meets. A subclass may keep some of it elsewhere, and pass on the rest.
class JsonTreeBuilder : public JsonVisitor {
 public:
  // `name` of the text begins every place.
  explicit JsonTreeBuilder(const std::string& name) { root.where = name; }

  bool scalar(JsonScalar& value) override;
  bool open(JsonKind kind) override;
  bool close() override;
  bool key(std::string& name) override;

  JsonTree root;

 protected:
  std::string key_;  // the last one

 private:
  JsonTree& add();

  std::vector<JsonTree*> open_;  // the innermost last
};

// UserError (11) names the text, and the byte where it is no JSON.
void build_tree(std::string_view text, JsonTreeBuilder& builder);
JsonTree parse_json(std::string_view text, const std::string& name);

}  // namespace fm::core
