#include "text/jinja/tests.h"

#include <algorithm>
#include <array>

#include "core/text.h"
#include "text/jinja/code_points.h"
#include "text/jinja/operators.h"

namespace fm::jinja {
namespace {

struct TestRow {
  std::string_view name;
  std::string_view parameter;  // "": it takes none
  bool (*passes)(const Value& value, const Bound& arguments);
};

template <class... Kinds>
bool is_of(const Value& value, const Bound&) {
  return (value.is<Kinds>() || ...);
}

template <Comparison kOp>
bool compares(const Value& value, const Bound& arguments) {
  return compare(kOp, value, arguments.need(0));
}

template <bool kTruth>
bool is_truth(const Value& value, const Bound&) {
  return value.is<bool>() && *value.get<bool>() == kTruth;
}

bool divides(const Value& value, const Value& number) {
  return equal(apply(Operator::kModulo, value, number), std::int64_t{0});
}
bool is_divisible(const Value& value, const Bound& arguments) {
  return divides(value, arguments.need(0));
}
bool is_even(const Value& value, const Bound&) { return divides(value, std::int64_t{2}); }
bool is_odd(const Value& value, const Bound&) {
  return equal(apply(Operator::kModulo, value, std::int64_t{2}), std::int64_t{1});
}

bool is_defined(const Value& value, const Bound&) { return !value.is<Undefined>(); }

bool is_iterable(const Value& value, const Bound&) {
  return value.is<Undefined>() || value.text() != nullptr || value.dict() != nullptr ||
         value.sequence() != nullptr || value.is<LoopPtr>();
}

// Python asks for a length and for items.
bool is_sequence(const Value& value, const Bound&) {
  if (value.is<Undefined>() || value.text() != nullptr || value.dict() != nullptr) return true;
  const Sequence* sequence = value.sequence();
  return sequence != nullptr && sequence->kind != SequenceKind::kIterator &&
         sequence->kind != SequenceKind::kView;
}

bool is_lower(const Value& value, const Bound&) {
  const std::string text = to_text(value);
  return lower(text) == text && upper(text) != text;
}
bool is_upper(const Value& value, const Bound&) {
  const std::string text = to_text(value);
  return upper(text) == text && lower(text) != text;
}

// Identity, where it is plain what is identical.
bool is_same(const Value& value, const Bound& arguments) {
  const Value& other = arguments.need(0);
  if (value.is<None>() || value.is<bool>() || other.is<None>() || other.is<bool>())
    return value.is<bool>() == other.is<bool>() && equal(value, other);
  if (value.dict() != nullptr) return value.dict() == other.dict();
  if (value.sequence() != nullptr) return value.sequence() == other.sequence();
  fail("sameas compares none, booleans, lists and dicts; use == (", kind_name(value), ")");
}

bool is_never(const Value&, const Bound&) { return false; }

constexpr TestRow kRows[] = {
    {"!=", "other", compares<Comparison::kNotEqual>},
    {"<", "other", compares<Comparison::kLess>},
    {"<=", "other", compares<Comparison::kLessEqual>},
    {"==", "other", compares<Comparison::kEqual>},
    {">", "other", compares<Comparison::kGreater>},
    {">=", "other", compares<Comparison::kGreaterEqual>},
    {"boolean", "", is_of<bool>},
    {"callable", "", is_of<FunctionPtr, LoopPtr, Undefined>},
    {"defined", "", is_defined},
    {"divisibleby", "num", is_divisible},
    {"eq", "other", compares<Comparison::kEqual>},
    {"equalto", "other", compares<Comparison::kEqual>},
    {"escaped", "", is_never},
    {"even", "", is_even},
    {"false", "", is_truth<false>},
    {"float", "", is_of<double>},
    {"ge", "other", compares<Comparison::kGreaterEqual>},
    {"greaterthan", "other", compares<Comparison::kGreater>},
    {"gt", "other", compares<Comparison::kGreater>},
    {"in", "seq", compares<Comparison::kIn>},
    {"integer", "", is_of<std::int64_t, LargeInteger>},
    {"iterable", "", is_iterable},
    {"le", "other", compares<Comparison::kLessEqual>},
    {"lessthan", "other", compares<Comparison::kLess>},
    {"lower", "", is_lower},
    {"lt", "other", compares<Comparison::kLess>},
    {"mapping", "", is_of<DictPtr>},
    {"ne", "other", compares<Comparison::kNotEqual>},
    {"none", "", is_of<None>},
    {"number", "", is_of<bool, std::int64_t, double, LargeInteger>},
    {"odd", "", is_odd},
    {"sameas", "other", is_same},
    {"sequence", "", is_sequence},
    {"string", "", is_of<std::string>},
    {"true", "", is_truth<true>},
    {"undefined", "", is_of<Undefined>},
    {"upper", "", is_upper},
};

const TestRow* find_row(std::string_view name) {
  const auto found = std::find_if(std::begin(kRows), std::end(kRows),
                                  [&](const TestRow& row) { return row.name == name; });
  return found == std::end(kRows) ? nullptr : &*found;
}

}  // namespace

bool is_test(std::string_view name) { return find_row(name) != nullptr; }

std::string test_names() {
  std::vector<std::string> names;
  for (const TestRow& row : kRows) names.emplace_back(row.name);
  return core::join(names, ", ");
}

bool call_test(std::string_view name, const Value& value, const Arguments& arguments) {
  const TestRow* row = find_row(name);
  if (row == nullptr) fail("a test must be one of ", test_names(), " (", name, ")");
  const std::span<const std::string_view> parameters(&row->parameter,
                                                     row->parameter.empty() ? 0 : 1);
  return row->passes(value, Bound(arguments, parameters, name));
}

}  // namespace fm::jinja
