#include "text/jinja/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "text/jinja/code_points.h"

namespace fm::jinja {
namespace {

constexpr std::size_t kCompareBytes = 4;  // of two values of any kind

// Adds a part to what is in its whole.
void add_extent(ValueSize& whole, const Value& part) {
  const ValueSize* extent = nullptr;
  if (const Sequence* sequence = part.sequence()) extent = &sequence->extent;
  if (const Dict* dict = part.dict()) extent = &dict->extent;
  count_value(part);
  whole.items += extent == nullptr ? 1 : extent->items;
  whole.depth = std::max(whole.depth, extent == nullptr ? 1 : extent->depth + 1);
  if (whole.items > kMostItems) fail("a value has at most ", kMostItems, " items, all levels");
  if (whole.depth > kMostNesting) fail("lists and dicts nest at most ", kMostNesting, " deep");
}

std::string quoted(const std::string& text) {
  const bool has_single = text.find('\'') != std::string::npos;
  const char quote = has_single && text.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char32_t point : decode(text)) {
    char code[16];
    switch (point) {
      case '\\': out += "\\\\"; continue;
      case '\n': out += "\\n"; continue;
      case '\r': out += "\\r"; continue;
      case '\t': out += "\\t"; continue;
      default: break;  // no letter of its own
    }
    if (point == static_cast<char32_t>(quote)) out += '\\';
    if (is_printable(point)) {
      append_utf8(out, point);
      continue;
    }
    const char* const form = point < 0x100 ? "\\x%02x" : point < 0x10000 ? "\\u%04x" : "\\U%08x";
    std::snprintf(code, sizeof(code), form, static_cast<unsigned>(point));
    out += code;
  }
  return out + quote;
}

std::string listed(const Values& items) {
  std::string out;
  for (const Value& item : items) {
    if (&item != items.data()) out += ", ";
    out += to_repr(item);
    if (out.size() > kMostTextBytes) fail("text has at most ", kMostTextBytes, " bytes");
  }
  return out;
}

std::string sequence_repr(const Sequence& sequence) {
  const std::string inner = sequence.kind == SequenceKind::kIterator ? "" : listed(sequence.items);
  switch (sequence.kind) {
    case SequenceKind::kList: return "[" + inner + "]";
    case SequenceKind::kTuple: return "(" + inner + (sequence.items.size() == 1 ? ",)" : ")");
    case SequenceKind::kRange:
    case SequenceKind::kView:
    case SequenceKind::kIterator: break;
  }
  fail("only what has a text may be printed; add the filter list (an iterator, a range or a view)");
}

std::string dict_repr(const Dict& dict) {
  std::string out = "{";
  for (const auto& [key, value] : dict.entries) {
    if (out.size() > 1) out += ", ";
    out += quoted(key) + ": " + to_repr(value);
    if (out.size() > kMostTextBytes) fail("text has at most ", kMostTextBytes, " bytes");
  }
  return out + "}";
}

// The number of a bool, an integer or a float; false: it is none.
bool number_of(const Value& value, double& number) {
  if (const bool* truth = value.get<bool>()) return number = *truth ? 1 : 0, true;
  if (const auto* whole = value.get<std::int64_t>())
    return number = static_cast<double>(*whole), true;
  if (const double* real = value.get<double>()) return number = *real, true;
  return false;
}

bool is_ordered(SequenceKind kind) {
  return kind == SequenceKind::kList || kind == SequenceKind::kTuple;
}

bool equal_sequences(const Sequence& left, const Sequence& right) {
  if (&left == &right) return true;
  if (left.kind != right.kind || left.kind == SequenceKind::kIterator) return false;
  return std::equal(left.items.begin(), left.items.end(), right.items.begin(), right.items.end(),
                    equal);
}

bool equal_dicts(const Dict& left, const Dict& right) {
  if (left.entries.size() != right.entries.size()) return false;
  return std::all_of(left.entries.begin(), left.entries.end(), [&](const auto& entry) {
    const Value* other = right.find(entry.first);
    return other != nullptr && equal(entry.second, *other);
  });
}

template <class T>
bool same_object(const Value& left, const Value& right) {
  const auto* one = left.get<T>();
  const auto* other = right.get<T>();
  return one != nullptr && other != nullptr && *one == *other;
}

}  // namespace

const Sequence* Value::sequence() const {
  const auto* found = get<SequencePtr>();
  return found == nullptr ? nullptr : found->get();
}

const Dict* Value::dict() const {
  const auto* found = get<DictPtr>();
  return found == nullptr ? nullptr : found->get();
}

const Value* Dict::find(std::string_view key) const {
  count_work(entries.size());
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const auto& entry) { return entry.first == key; });
  return found == entries.end() ? nullptr : &found->second;
}

bool Loop::has(std::size_t count) const {
  while (items.size() < count) {
    if (!find_next || !find_next(items)) return false;
  }
  return true;
}

std::int64_t Loop::length() const {
  while (has(items.size() + 1)) continue;
  return static_cast<std::int64_t>(items.size());
}

Value make_sequence(SequenceKind kind, Values items) {
  ValueSize extent;
  for (const Value& item : items) add_extent(extent, item);
  return SequencePtr(std::make_shared<Sequence>(Sequence{kind, std::move(items), extent}));
}

Value make_dict(Entries entries) {
  ValueSize extent;
  for (const auto& [key, value] : entries) add_extent(extent, value);
  return DictPtr(std::make_shared<Dict>(Dict{std::move(entries), extent}));
}

void set_entry(Entries& entries, std::string_view name, Value value) {
  count_work(entries.size());
  for (auto& [key, old] : entries) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  entries.emplace_back(name, std::move(value));
}

Value make_text(std::string text) {
  if (text.size() > kMostTextBytes) fail("text has at most ", kMostTextBytes, " bytes");
  count_work(text.size());
  return text;
}

Value make_function(std::string name, std::function<Value(const Arguments&)> call) {
  return FunctionPtr(std::make_shared<Function>(Function{std::move(name), std::move(call)}));
}

bool truthy(const Value& value) {
  if (value.is<Undefined>() || value.is<None>()) return false;
  double number = 0;
  if (number_of(value, number)) return number != 0;
  if (const std::string* text = value.text()) return !text->empty();
  if (const Dict* dict = value.dict()) return !dict->entries.empty();
  if (const Sequence* sequence = value.sequence())
    return sequence->kind == SequenceKind::kIterator || !sequence->items.empty();
  return true;
}

std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char shortest[40];
  const auto end =
      std::to_chars(shortest, shortest + sizeof(shortest), number, std::chars_format::scientific);
  std::string text(shortest, end.ptr);
  const std::size_t mark = text.find('e');
  const int exponent = std::atoi(text.c_str() + mark + 1);
  if (exponent < -4 || exponent >= 16) return text;
  const auto fixed =
      std::to_chars(shortest, shortest + sizeof(shortest), number, std::chars_format::fixed);
  std::string out(shortest, fixed.ptr);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

std::string to_repr(const Value& value) {
  if (value.is<Undefined>()) return "Undefined";
  if (const std::string* text = value.text()) return quoted(*text);
  return to_text(value);
}

std::string to_text(const Value& value) {
  if (value.is<Undefined>()) return "";
  if (value.is<None>()) return "None";
  if (const std::string* text = value.text()) {
    count_work(text->size());
    return *text;
  }
  if (const bool* truth = value.get<bool>()) return *truth ? "True" : "False";
  if (const auto* whole = value.get<std::int64_t>()) return std::to_string(*whole);
  if (const double* real = value.get<double>()) return float_text(*real);
  if (const auto* large = value.get<LargeInteger>()) return large->digits;
  if (const Sequence* sequence = value.sequence()) return sequence_repr(*sequence);
  if (const Dict* dict = value.dict()) return dict_repr(*dict);
  fail("only what has a text may be printed; print one of its attributes (", kind_name(value), ")");
}

std::string kind_name(const Value& value) {
  if (value.is<Undefined>()) return "an undefined value";
  if (value.is<None>()) return "none";
  if (value.is<bool>()) return "a boolean";
  if (value.is<std::int64_t>()) return "an integer";
  if (value.is<double>()) return "a float";
  if (value.is<LargeInteger>()) return "an integer of more than 64 bits";
  if (value.text() != nullptr) return "text";
  if (value.dict() != nullptr) return "a dict";
  if (value.is<NamespacePtr>()) return "a namespace";
  if (value.is<FunctionPtr>()) return "a function";
  if (value.is<LoopPtr>()) return "a loop";
  switch (value.sequence()->kind) {
    case SequenceKind::kList: return "a list";
    case SequenceKind::kTuple: return "a tuple";
    case SequenceKind::kRange: return "a range";
    case SequenceKind::kView: return "a view of a dict";
    case SequenceKind::kIterator: break;
  }
  return "an iterator";
}

Values iterate(const Value& value) {
  if (value.is<Undefined>()) return {};
  Values items;
  if (const std::string* text = value.text()) {
    if (text->size() > kMostItems) fail("a value has at most ", kMostItems, " items, all levels");
    for (const char32_t point : decode(*text)) items.emplace_back(encode({&point, 1}));
    return items;
  }
  if (const Dict* dict = value.dict()) {
    for (const auto& [key, unused] : dict->entries) items.emplace_back(key);
    return items;
  }
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr) fail("a list or another iterable is required (", kind_name(value), ")");
  const bool once = sequence->kind == SequenceKind::kIterator;
  const std::size_t first = once ? sequence->next : 0;
  if (once) sequence->next = sequence->items.size();
  items.reserve(sequence->items.size() - first);
  for (std::size_t at = first; at < sequence->items.size(); ++at) {
    count_value(sequence->items[at]);
    items.push_back(sequence->items[at]);
  }
  return items;
}

std::int64_t length(const Value& value) {
  if (value.is<Undefined>()) return 0;
  if (const std::string* text = value.text()) return count_points(*text);
  if (const Dict* dict = value.dict()) return static_cast<std::int64_t>(dict->entries.size());
  if (const LoopPtr* loop = value.get<LoopPtr>()) return (*loop)->length();
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr || sequence->kind == SequenceKind::kIterator)
    fail("something with a length is required; add the filter list (", kind_name(value), ")");
  return static_cast<std::int64_t>(sequence->items.size());
}

bool equal(const Value& left, const Value& right) {
  count_work(kCompareBytes);
  if (left.is<Undefined>() || left.is<None>())
    return left.is<Undefined>() ? right.is<Undefined>() : right.is<None>();
  if (left.is<std::int64_t>() && right.is<std::int64_t>())
    return *left.get<std::int64_t>() == *right.get<std::int64_t>();
  double one = 0;
  double other = 0;
  if (number_of(left, one)) return number_of(right, other) && one == other;
  if (const std::string* text = left.text()) {
    if (right.text() == nullptr || text->size() != right.text()->size()) return false;
    count_work(text->size());
    return *text == *right.text();
  }
  if (const auto* large = left.get<LargeInteger>()) {
    const auto* const same = right.get<LargeInteger>();
    return same != nullptr && large->digits == same->digits;
  }
  if (left.sequence() != nullptr)
    return right.sequence() != nullptr && equal_sequences(*left.sequence(), *right.sequence());
  if (left.dict() != nullptr)
    return right.dict() != nullptr && equal_dicts(*left.dict(), *right.dict());
  return same_object<NamespacePtr>(left, right) || same_object<FunctionPtr>(left, right) ||
         same_object<LoopPtr>(left, right);
}

bool less(const Value& left, const Value& right) {
  count_work(kCompareBytes);
  if (left.is<std::int64_t>() && right.is<std::int64_t>())
    return *left.get<std::int64_t>() < *right.get<std::int64_t>();
  double one = 0;
  double other = 0;
  if (number_of(left, one) && number_of(right, other)) return one < other;
  // Bytes of UTF-8 are ordered as code points are.
  if (left.text() != nullptr && right.text() != nullptr) {
    count_work(std::min(left.text()->size(), right.text()->size()));
    return *left.text() < *right.text();
  }
  const Sequence* first = left.sequence();
  const Sequence* second = right.sequence();
  if (first != nullptr && second != nullptr && first->kind == second->kind &&
      is_ordered(first->kind)) {
    for (std::size_t at = 0; at < std::min(first->items.size(), second->items.size()); ++at) {
      if (!equal(first->items[at], second->items[at]))
        return less(first->items[at], second->items[at]);
    }
    return first->items.size() < second->items.size();
  }
  for (const Value* value : {&left, &right}) {
    if (const auto* undefined = value->get<Undefined>()) fail(undefined->why);
  }
  fail("values of one kind with an order are required (", kind_name(left), " and ",
       kind_name(right), ")");
}

}  // namespace fm::jinja
