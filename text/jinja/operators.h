// Python's operators on values.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace fm::jinja {

enum class Operator : std::uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower
};
enum class Comparison : std::uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

Value apply(Operator op, const Value& left, const Value& right);
bool compare(Comparison op, const Value& left, const Value& right);
Value negate(const Value& value);
Value plus(const Value& value);

// Bounds of a slice as they stand in a template; nullptr or none: left out.
struct Bounds {
  const Value* start = nullptr;
  const Value* stop = nullptr;
  const Value* step = nullptr;
};

// value.name: a method or an attribute before an item; value[index]: an item before an attribute.
Value attribute_of(const Value& value, const std::string& name);
Value item_of(const Value& value, const Value& index);
Value slice_of(const Value& value, const Bounds& bounds);

}  // namespace fm::jinja
