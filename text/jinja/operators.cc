#include "text/jinja/operators.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "core/text.h"
#include "text/jinja/arguments.h"
#include "text/jinja/code_points.h"
#include "text/jinja/format.h"
#include "text/jinja/methods.h"

namespace fm::jinja {
namespace {

const char* symbol(Operator op) {
  switch (op) {
    case Operator::kAdd: return "+";
    case Operator::kSubtract: return "-";
    case Operator::kMultiply: return "*";
    case Operator::kDivide: return "/";
    case Operator::kFloorDivide: return "//";
    case Operator::kModulo: return "%";
    case Operator::kPower: break;
  }
  return "**";
}

std::optional<std::int64_t> whole_of(const Value& value) {
  if (const auto* whole = value.get<std::int64_t>()) return *whole;
  if (const bool* truth = value.get<bool>()) return *truth ? 1 : 0;
  return std::nullopt;
}

std::optional<double> real_of(const Value& value) {
  if (const double* real = value.get<double>()) return *real;
  const std::optional<std::int64_t> whole = whole_of(value);
  if (!whole) return std::nullopt;
  return static_cast<double>(*whole);
}

[[noreturn]] void too_large() { fail("integers have 64 bits here; use smaller numbers"); }

std::int64_t whole_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  for (std::int64_t at = 0; at < exponent; ++at) {
    if (__builtin_mul_overflow(result, base, &result)) too_large();
    if (result == 0 || (result == 1 && base == 1)) break;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  }
  return result;
}

// Toward minus infinity, as Python divides.
std::int64_t floor_divide(std::int64_t left, std::int64_t right) {
  if (right == -1) {
    std::int64_t result = 0;
    if (__builtin_sub_overflow(std::int64_t{0}, left, &result)) too_large();
    return result;
  }
  const std::int64_t quotient = left / right;
  return quotient - (left % right != 0 && (left < 0) != (right < 0) ? 1 : 0);
}

Value whole_arithmetic(Operator op, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  bool overflow = false;
  if ((op == Operator::kDivide || op == Operator::kFloorDivide || op == Operator::kModulo) &&
      right == 0)
    fail("a number other than 0 is required to divide by");
  switch (op) {
    case Operator::kAdd: overflow = __builtin_add_overflow(left, right, &result); break;
    case Operator::kSubtract: overflow = __builtin_sub_overflow(left, right, &result); break;
    case Operator::kMultiply: overflow = __builtin_mul_overflow(left, right, &result); break;
    case Operator::kDivide: return static_cast<double>(left) / static_cast<double>(right);
    case Operator::kFloorDivide: return floor_divide(left, right);
    case Operator::kModulo: return right == -1 ? 0 : left - right * floor_divide(left, right);
    case Operator::kPower:
      if (right < 0) return std::pow(static_cast<double>(left), static_cast<double>(right));
      return whole_power(left, right);
  }
  if (overflow) too_large();
  return result;
}

double floor_modulo(double left, double right) {
  const double rest = std::fmod(left, right);
  if (rest == 0) return std::copysign(0.0, right);
  return (rest < 0) != (right < 0) ? rest + right : rest;
}

Value real_arithmetic(Operator op, double left, double right) {
  if ((op == Operator::kDivide || op == Operator::kFloorDivide || op == Operator::kModulo) &&
      right == 0)
    fail("a number other than 0 is required to divide by");
  switch (op) {
    case Operator::kAdd: return left + right;
    case Operator::kSubtract: return left - right;
    case Operator::kMultiply: return left * right;
    case Operator::kDivide: return left / right;
    case Operator::kFloorDivide: return std::round((left - floor_modulo(left, right)) / right);
    case Operator::kModulo: return floor_modulo(left, right);
    case Operator::kPower: break;
  }
  const double power = std::pow(left, right);
  if (!std::isfinite(power) && std::isfinite(left) && std::isfinite(right))
    fail("a power that is a finite real number is required (", left, " ** ", right, ")");
  return power;
}

Value repeat(const Value& value, std::int64_t times) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(0, times));
  if (const std::string* text = value.text()) {
    if (!text->empty() && count > kMostTextBytes / text->size())
      fail("text has at most ", kMostTextBytes, " bytes");
    std::string out;
    for (std::size_t at = 0; at < count && !text->empty(); ++at) out += *text;
    return out;
  }
  const Sequence& sequence = *value.sequence();
  if (!sequence.items.empty() && count > kMostItems / sequence.items.size())
    fail("a value has at most ", kMostItems, " items, all levels");
  Values items;
  for (std::size_t at = 0; at < count && !sequence.items.empty(); ++at)
    items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  return make_sequence(sequence.kind, std::move(items));
}

bool is_list(const Value& value) {
  const Sequence* sequence = value.sequence();
  return sequence != nullptr &&
         (sequence->kind == SequenceKind::kList || sequence->kind == SequenceKind::kTuple);
}

// + and * of text and lists, % of text; nullopt: these operands have no such operation.
std::optional<Value> sequence_operation(Operator op, const Value& left, const Value& right) {
  if (op == Operator::kAdd && left.text() != nullptr && right.text() != nullptr)
    return make_text(*left.text() + *right.text());
  if (op == Operator::kModulo && left.text() != nullptr)
    return make_text(percent_format(*left.text(), right));
  if (op == Operator::kAdd && is_list(left) && is_list(right) &&
      left.sequence()->kind == right.sequence()->kind) {
    Values items = left.sequence()->items;
    items.insert(items.end(), right.sequence()->items.begin(), right.sequence()->items.end());
    return make_sequence(left.sequence()->kind, std::move(items));
  }
  if (op != Operator::kMultiply) return std::nullopt;
  if ((left.text() != nullptr || is_list(left)) && whole_of(right))
    return repeat(left, *whole_of(right));
  if ((right.text() != nullptr || is_list(right)) && whole_of(left))
    return repeat(right, *whole_of(left));
  return std::nullopt;
}

bool contains(const Value& container, const Value& item) {
  if (const std::string* text = container.text()) {
    if (item.text() == nullptr) fail("only text can be in text (", kind_name(item), ")");
    return find_text(*text, *item.text()) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) {
    if (is_list(item) || item.dict() != nullptr)
      fail("a key of a dict must be text (", kind_name(item), ")");
    return item.text() != nullptr && dict->find(*item.text()) != nullptr;
  }
  const Sequence* sequence = container.sequence();
  const bool stays = sequence != nullptr && sequence->kind != SequenceKind::kIterator;
  const Values read = stays ? Values() : iterate(container);
  const Values& items = stays ? sequence->items : read;
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& one) { return equal(one, item); });
}

Value missing(const Value& value, const std::string& name) {
  return Undefined{
      core::concat(kind_name(value), " has no attribute \"", core::shortened(name), '"')};
}

Value loop_attribute(const LoopPtr& loop, const std::string& name) {
  const auto index0 = static_cast<std::int64_t>(loop->index0);
  if (name == "index") return index0 + 1;
  if (name == "index0") return index0;
  if (name == "first") return index0 == 0;
  if (name == "last") return !loop->has(loop->index0 + 2);
  if (name == "length") return loop->length();
  if (name == "revindex") return loop->length() - index0;
  if (name == "revindex0") return loop->length() - index0 - 1;
  if (name == "depth") return std::int64_t{1};  // more in recursive loops, which are refused
  if (name == "depth0") return std::int64_t{0};
  if (name == "previtem")
    return index0 == 0 ? Value(Undefined{"there is no previous item"})
                       : loop->items[loop->index0 - 1];
  if (name == "nextitem")
    return loop->has(loop->index0 + 2) ? loop->items[loop->index0 + 1]
                                       : Value(Undefined{"there is no next item"});
  if (name == "cycle")
    return make_function("loop.cycle", [loop](const Arguments& arguments) {
      if (arguments.positional.empty()) fail("loop.cycle needs values");
      return arguments.positional[loop->index0 % arguments.positional.size()];
    });
  if (name == "changed") fail("loop.changed is not supported; compare with loop.previtem");
  return Undefined{core::concat("loop has no attribute \"", core::shortened(name), '"')};
}

const Value* find_entry(const Entries& entries, std::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  return found == entries.end() ? nullptr : &found->second;
}

// Methods and what else Python's getattr finds.
std::optional<Value> own_attribute(const Value& value, const std::string& name) {
  if (const auto* undefined = value.get<Undefined>()) fail(undefined->why);
  if (name.starts_with("__"))
    return Undefined{core::concat("attributes with underscores are not accessible (",
                                  core::shortened(name), ")")};
  if (const auto* names = value.get<NamespacePtr>()) {
    const Value* found = find_entry((*names)->entries, name);
    return found == nullptr ? missing(value, name) : *found;
  }
  if (const auto* loop = value.get<LoopPtr>()) return loop_attribute(*loop, name);
  return method_of(value, name);
}

std::optional<std::int64_t> place_of(const Value& index, std::int64_t count) {
  std::int64_t at = 0;
  if (const bool* truth = index.get<bool>()) {
    at = *truth ? 1 : 0;
  } else if (const auto* whole = index.get<std::int64_t>()) {
    at = *whole;
  } else {
    return std::nullopt;
  }
  if (at < 0) at += count;
  if (at < 0 || at >= count) return std::nullopt;
  return at;
}

std::optional<Value> own_item(const Value& value, const Value& index) {
  if (const auto* undefined = value.get<Undefined>()) fail(undefined->why);
  if (const Dict* dict = value.dict()) {
    const Value* found = index.text() == nullptr ? nullptr : dict->find(*index.text());
    if (found == nullptr) return std::nullopt;
    count_value(*found);
    return *found;
  }
  if (const std::string* text = value.text()) {
    if (index.text() != nullptr) return std::nullopt;
    const std::u32string points = decode(*text);
    const auto at = place_of(index, static_cast<std::int64_t>(points.size()));
    if (!at) return std::nullopt;
    return Value(encode({&points[static_cast<std::size_t>(*at)], 1}));
  }
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr || sequence->kind == SequenceKind::kIterator ||
      sequence->kind == SequenceKind::kView)
    return std::nullopt;
  const auto at = place_of(index, static_cast<std::int64_t>(sequence->items.size()));
  if (!at) return std::nullopt;
  return sequence->items[static_cast<std::size_t>(*at)];
}

// A slice's bounds as places: PySlice_AdjustIndices.
struct Places {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
};

std::optional<std::int64_t> read_bound(const Value* bound) {
  if (bound == nullptr || bound->is<None>()) return std::nullopt;
  return need_whole(*bound);
}

Places places_of(const Bounds& bounds, std::int64_t length) {
  const std::optional<std::int64_t> start = read_bound(bounds.start);
  const std::optional<std::int64_t> stop = read_bound(bounds.stop);
  const std::optional<std::int64_t> step = read_bound(bounds.step);
  Places places{.step = std::clamp<std::int64_t>(step.value_or(1), -(length + 1), length + 1)};
  if (step == 0) fail("a slice's step must not be 0");
  const bool forward = places.step > 0;
  const auto adjust = [&](std::int64_t at) {
    if (at < 0) at = at < -length ? -1 : at + length;
    if (at < 0) return forward ? std::int64_t{0} : std::int64_t{-1};
    if (at >= length) return forward ? length : length - 1;
    return at;
  };
  places.start = start ? adjust(*start) : (forward ? 0 : length - 1);
  const std::int64_t end = stop ? adjust(*stop) : (forward ? length : -1);
  const std::int64_t way = forward ? end - places.start : places.start - end;
  const std::int64_t stride = forward ? places.step : -places.step;
  places.count = way <= 0 ? 0 : (way - 1) / stride + 1;
  return places;
}

}  // namespace

Value apply(Operator op, const Value& left, const Value& right) {
  // Python formats "%s" % undefined, which has a text.
  const bool formats = op == Operator::kModulo && left.text() != nullptr;
  for (const Value* value : {&left, &right}) {
    const auto* undefined = value->get<Undefined>();
    if (undefined != nullptr && !formats) fail(undefined->why);
  }
  if (whole_of(left) && whole_of(right))
    return whole_arithmetic(op, *whole_of(left), *whole_of(right));
  if (real_of(left) && real_of(right)) return real_arithmetic(op, *real_of(left), *real_of(right));
  if (std::optional<Value> result = sequence_operation(op, left, right)) return *std::move(result);
  fail("operands that fit together are required; convert one, as with the filter string (",
       kind_name(left), ' ', symbol(op), ' ', kind_name(right), ")");
}

bool compare(Comparison op, const Value& left, const Value& right) {
  switch (op) {
    case Comparison::kEqual: return equal(left, right);
    case Comparison::kNotEqual: return !equal(left, right);
    case Comparison::kLess: return less(left, right);
    case Comparison::kLessEqual: return less(left, right) || equal(left, right);
    case Comparison::kGreater: return less(right, left);
    case Comparison::kGreaterEqual: return less(right, left) || equal(left, right);
    case Comparison::kIn: return contains(right, left);
    case Comparison::kNotIn: break;
  }
  return !contains(right, left);
}

Value negate(const Value& value) {
  if (const double* real = value.get<double>()) return -*real;
  return whole_arithmetic(Operator::kSubtract, 0, need_whole(value));
}

Value plus(const Value& value) {
  if (value.is<double>()) return value;
  return need_whole(value);
}

Value attribute_of(const Value& value, const std::string& name) {
  if (std::optional<Value> own = own_attribute(value, name)) return *std::move(own);
  if (std::optional<Value> item = own_item(value, name)) return *std::move(item);
  return missing(value, name);
}

Value item_of(const Value& value, const Value& index) {
  if (std::optional<Value> item = own_item(value, index)) return *std::move(item);
  if (const std::string* name = index.text()) {
    if (std::optional<Value> own = own_attribute(value, *name)) return *std::move(own);
    return missing(value, *name);
  }
  return Undefined{core::concat(kind_name(value), " has no such item (", kind_name(index), ")")};
}

Value slice_of(const Value& value, const Bounds& bounds) {
  if (const auto* undefined = value.get<Undefined>()) fail(undefined->why);
  const std::string* text = value.text();
  const Sequence* sequence = value.sequence();
  const bool has_places = sequence != nullptr && sequence->kind != SequenceKind::kIterator &&
                          sequence->kind != SequenceKind::kView;
  if (text == nullptr && !has_places) fail(kind_name(value), " has no slices");
  const std::u32string points = text == nullptr ? std::u32string() : decode(*text);
  const std::size_t length = text == nullptr ? sequence->items.size() : points.size();
  const Places places = places_of(bounds, static_cast<std::int64_t>(length));
  std::string letters;
  Values items;
  for (std::int64_t at = 0; at < places.count; ++at) {
    const auto place = static_cast<std::size_t>(places.start + at * places.step);
    if (text != nullptr) {
      append_utf8(letters, points[place]);
    } else {
      items.push_back(sequence->items[place]);
    }
  }
  if (text != nullptr) return letters;
  return make_sequence(sequence->kind, std::move(items));
}

}  // namespace fm::jinja
