// The interpreter's half that computes expressions.
#include <algorithm>
#include <array>

#include "text/jinja/filters.h"
#include "text/jinja/interpreter.h"

namespace fm::jinja {
Value Interpreter::evaluate(const Expression& expression, Scope& scope) {
  const Nested nested(*this);
  count_step(expression.line);
  Value value = expression.kind == ExpressionKind::kConstant ? expression.constant
                : expression.kind == ExpressionKind::kName   ? look_up(expression.text, scope)
                                                             : compute(expression, scope);
  if (const std::string* text = value.text()) count_work(text->size());
  return value;
}

Value Interpreter::compute(const Expression& at, Scope& scope) {
  const auto part = [&](std::size_t index) { return evaluate(*at.parts[index], scope); };
  switch (at.kind) {
    case ExpressionKind::kConstant:
    case ExpressionKind::kName: break;
    case ExpressionKind::kList: return make_list(evaluate_parts(at, scope, 0));
    case ExpressionKind::kTuple: return make_tuple(evaluate_parts(at, scope, 0));
    case ExpressionKind::kDict: return make_dict_of(at, scope);
    case ExpressionKind::kAttribute: return attribute_of(part(0), at.text);
    case ExpressionKind::kItem: {
      const Value value = part(0);
      return item_of(value, part(1));
    }
    case ExpressionKind::kSlice: return take_slice(at, scope);
    case ExpressionKind::kCall: return call(at, scope, nullptr);
    case ExpressionKind::kFilter: {
      const Value value = part(0);
      return call_filter(at.text, value, arguments_of(at, scope));
    }
    case ExpressionKind::kTest: {
      const Value value = part(0);
      return call_test(at.text, value, arguments_of(at, scope));
    }
    case ExpressionKind::kNot: return !truthy(part(0));
    case ExpressionKind::kNegate: return negate(part(0));
    case ExpressionKind::kPlus: return plus(part(0));
    case ExpressionKind::kArithmetic: {
      const Value left = part(0);
      return apply(at.operation, left, part(1));
    }
    case ExpressionKind::kCompare: return compare_chain(at, scope);
    case ExpressionKind::kAnd: {
      Value left = part(0);
      return truthy(left) ? part(1) : left;
    }
    case ExpressionKind::kOr: {
      Value left = part(0);
      return truthy(left) ? left : part(1);
    }
    case ExpressionKind::kConcat: return concatenate(at, scope);
    case ExpressionKind::kConditional: return choose(at, scope);
  }
  return {};
}

Value Interpreter::look_up(const std::string& name, const Scope& scope) const {
  std::size_t seen = 0;
  for (const Scope* at = &scope; at != nullptr; at = at->parent) {
    seen += at->names.size();
    for (const auto& [known, value] : at->names) {
      if (known != name) continue;
      count_work(seen);
      return value;
    }
  }
  count_work(seen);
  constexpr std::array<std::string_view, 5> kOthers = {"cycler", "joiner", "kwargs", "lipsum",
                                                       "varargs"};
  if (std::find(kOthers.begin(), kOthers.end(), name) != kOthers.end())
    fail(name, " is not supported; rewrite the template");
  return Undefined{core::concat('"', name, "\" is undefined")};
}

Values Interpreter::evaluate_parts(const Expression& expression, Scope& scope, std::size_t from) {
  Values values;
  for (std::size_t at = from; at < expression.parts.size(); ++at)
    values.push_back(evaluate(*expression.parts[at], scope));
  return values;
}

Value Interpreter::make_dict_of(const Expression& expression, Scope& scope) {
  Entries entries;
  for (std::size_t at = 0; at < expression.parts.size(); at += 2) {
    const Value key = evaluate(*expression.parts[at], scope);
    if (key.text() == nullptr)
      fail("the keys of a dict must be text here; convert them (", kind_name(key), ")");
    set_entry(entries, *key.text(), evaluate(*expression.parts[at + 1], scope));
  }
  return make_dict(std::move(entries));
}

Value Interpreter::take_slice(const Expression& expression, Scope& scope) {
  std::array<Value, 4> values;
  for (std::size_t at = 0; at < values.size(); ++at) {
    if (expression.parts[at] == nullptr) {
      values[at] = None{};
    } else {
      values[at] = evaluate(*expression.parts[at], scope);
    }
  }
  return slice_of(values[0], {&values[1], &values[2], &values[3]});
}

Arguments Interpreter::arguments_of(const Expression& expression, Scope& scope) {
  Arguments arguments{evaluate_parts(expression, scope, 1), {}};
  for (const auto& [name, value] : expression.named) {
    count_work(arguments.named.size());
    const bool twice = std::any_of(arguments.named.begin(), arguments.named.end(),
                                   [&name = name](const auto& one) { return one.first == name; });
    if (twice) fail("an argument must be given once (", name, ")");
    arguments.named.emplace_back(name, evaluate(*value, scope));
  }
  return arguments;
}

Value Interpreter::call(const Expression& expression, Scope& scope, const Value* body) {
  const Value function = evaluate(*expression.parts[0], scope);
  Arguments arguments = arguments_of(expression, scope);
  if (body != nullptr) arguments.named.emplace_back("caller", *body);
  line_ = expression.line;
  if (const auto* undefined = function.get<Undefined>()) fail(undefined->why);
  const auto* found = function.get<FunctionPtr>();
  if (found == nullptr) fail("only functions can be called (", kind_name(function), ")");
  return (*found)->call(arguments);
}

Value Interpreter::compare_chain(const Expression& expression, Scope& scope) {
  Value left = evaluate(*expression.parts[0], scope);
  for (std::size_t at = 0; at < expression.comparisons.size(); ++at) {
    Value right = evaluate(*expression.parts[at + 1], scope);
    if (!compare(expression.comparisons[at], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::concatenate(const Expression& expression, Scope& scope) {
  std::string text;
  for (const ExpressionPtr& part : expression.parts) text += to_text(evaluate(*part, scope));
  return make_text(std::move(text));
}

Value Interpreter::choose(const Expression& expression, Scope& scope) {
  if (truthy(evaluate(*expression.parts[0], scope))) return evaluate(*expression.parts[1], scope);
  if (expression.parts.size() == 3) return evaluate(*expression.parts[2], scope);
  return Undefined{"the condition is false, and there is no else"};
}

}  // namespace fm::jinja
