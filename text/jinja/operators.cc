#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "text/jinja/arguments.h"
#include "text/jinja/code_points.h"
#include "text/jinja/format.h"

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

}  // namespace fm::jinja
