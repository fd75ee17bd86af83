// What a template computes with: the values of JSON, and the kinds of Python's that Jinja adds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/check.h"
#include "text/jinja/work_limit.h"

namespace fm::jinja {

// An operation that Python or this subset refuses; the interpreter adds file and line.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Failure(core::concat(parts...));
}

// Above what any conversation needs; a template is a stranger's program.
inline constexpr std::size_t kMostTextBytes = 64'000'000;
inline constexpr std::size_t kMostItems = 1'000'000;  // in one value, on all its levels
inline constexpr int kMostNesting = 200;              // of values, and of a template's expressions

class Value;
struct Sequence;
struct Dict;
struct Namespace;
struct Function;
struct Loop;

struct Undefined {
  std::string why = "the value is undefined";  // for the message of whoever needs it
};
struct None {};
// Out of JSON, beyond 64 bits: it may be printed and compared with its like, not reckoned with.
struct LargeInteger {
  std::string digits;
};
using SequencePtr = std::shared_ptr<const Sequence>;
using DictPtr = std::shared_ptr<const Dict>;
using NamespacePtr = std::shared_ptr<Namespace>;
using FunctionPtr = std::shared_ptr<const Function>;
using LoopPtr = std::shared_ptr<const Loop>;

// Values are immutable but for namespaces, and so is what they hold.
class Value {
 public:
  Value() = default;  // undefined
  // NOLINTBEGIN(google-explicit-constructor): each of these is a value.
  Value(Undefined undefined) : data_(std::move(undefined)) {}
  Value(None none) : data_(none) {}
  Value(bool truth) : data_(truth) {}
  Value(std::int64_t number) : data_(number) {}
  Value(double number) : data_(number) {}
  Value(LargeInteger number) : data_(std::move(number)) {}
  Value(std::string text) : data_(std::move(text)) {}
  Value(const char* text) : data_(std::string(text)) {}
  Value(SequencePtr items) : data_(std::move(items)) {}
  Value(DictPtr dict) : data_(std::move(dict)) {}
  Value(NamespacePtr names) : data_(std::move(names)) {}
  Value(FunctionPtr function) : data_(std::move(function)) {}
  Value(LoopPtr loop) : data_(std::move(loop)) {}
  // NOLINTEND(google-explicit-constructor)

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(data_);
  }
  template <class T>
  const T* get() const {  // nullptr: it is of another kind
    return std::get_if<T>(&data_);
  }
  const std::string* text() const { return get<std::string>(); }
  const Sequence* sequence() const;
  const Dict* dict() const;

 private:
  std::variant<Undefined, None, bool, std::int64_t, double, LargeInteger, std::string, SequencePtr,
               DictPtr, NamespacePtr, FunctionPtr, LoopPtr>
      data_;
};

// Counts a copy of a value as work: of its text, or of a handle.
inline void count_value(const Value& value) {
  const std::string* text = value.text();
  count_work(kItemBytes + (text == nullptr ? 0 : text->size()));
}

using Values = std::vector<Value>;
using Entries = std::vector<std::pair<std::string, Value>>;

enum class SequenceKind : std::uint8_t {
  kList,
  kTuple,
  kRange,
  kView,      // of a dict's keys, values or items: has a length and no places
  kIterator,  // of a filter such as map: true, read once, without a length
};

// How much is in a value, so that nothing grows without end.
struct ValueSize {
  int depth = 1;
  std::size_t items = 1;  // on all levels
};

struct Sequence {
  SequenceKind kind;
  Values items;
  ValueSize extent;
  mutable std::size_t next = 0;  // of an iterator: what has been read
};

// In order of insertion; keys are text.
struct Dict {
  Entries entries;
  ValueSize extent;
  const Value* find(std::string_view key) const;
};

struct Namespace {
  Entries entries;
};

// What a loop's body sees as `loop`. A loop with a condition finds its items as they are asked for:
// the condition may depend on what the body has done.
struct Loop {
  mutable Values items;  // found until now
  std::size_t index0 = 0;
  std::function<bool(Values& items)> find_next;  // appends one; false: there is none; may be empty
  // Whether there are `count` items.
  bool has(std::size_t count) const;
  std::int64_t length() const;
};

struct Arguments {
  Values positional;
  Entries named;
};

struct Function {
  std::string name;
  std::function<Value(const Arguments&)> call;
};

// These refuse what nests deeper than kMostNesting or holds more than kMostItems.
Value make_sequence(SequenceKind kind, Values items);
inline Value make_list(Values items) {
  return make_sequence(SequenceKind::kList, std::move(items));
}
inline Value make_tuple(Values items) {
  return make_sequence(SequenceKind::kTuple, std::move(items));
}
Value make_dict(Entries entries);
// Of entries with one name: the last one's value at the first one's place, as Python has it.
void set_entry(Entries& entries, std::string_view name, Value value);
// Refuses what is longer than kMostTextBytes.
Value make_text(std::string text);
Value make_function(std::string name, std::function<Value(const Arguments&)> call);

bool truthy(const Value& value);
// Python's str() and repr().
std::string to_text(const Value& value);
std::string to_repr(const Value& value);
std::string float_text(double number);
// For messages: "text", "an undefined value", ...
std::string kind_name(const Value& value);

// Python's iter(): the items, keys or characters; an iterator gives what is left.
Values iterate(const Value& value);
// Python's len().
std::int64_t length(const Value& value);

bool equal(const Value& left, const Value& right);
// left < right, for what Python orders.
bool less(const Value& left, const Value& right);

}  // namespace fm::jinja
