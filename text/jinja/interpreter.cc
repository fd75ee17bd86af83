#include "text/jinja/interpreter.h"

#include <algorithm>
#include <array>

#include "core/text.h"
#include "text/jinja/arguments.h"
#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/tests.h"

namespace fm::jinja {

Interpreter::Inner::Inner(Interpreter& interpreter, Scope& parent)
    : interpreter_(interpreter), scope_(std::make_unique<Scope>()) {
  scope_->parent = &parent;
}

Interpreter::Inner::~Inner() {
  if (scope_->kept) interpreter_.kept_.push_back(std::move(scope_));
}

Interpreter::Nested::Nested(Interpreter& interpreter) : interpreter_(interpreter) {
  if (interpreter_.nesting_ == kMostDepth)
    fail("calls and expressions nest at most ", kMostDepth, " deep");
  ++interpreter_.nesting_;
}

Interpreter::~Interpreter() {
  for (const NamespacePtr& names : namespaces_) names->entries.clear();
}

Rendered Interpreter::render(const Entries& variables) {
  add_globals();
  Scope scope{.parent = &globals_, .names = variables, .kept = true};
  run(body_, scope);
  return std::move(rendered_);
}

void Interpreter::add_globals() {
  const auto add = [&](const char* name, std::function<Value(const Arguments&)> call) {
    globals_.names.emplace_back(name, make_function(name, std::move(call)));
  };
  add("raise_exception", [](const Arguments& arguments) -> Value {
    constexpr std::string_view kMessage[] = {"message"};
    const Bound bound(arguments, kMessage, "raise_exception");
    fail("the template refuses this conversation: ", core::shortened(to_text(bound.need(0))));
  });
  add("strftime_now", [this](const Arguments& arguments) -> Value {
    constexpr std::string_view kForm[] = {"format"};
    return time_text(Bound(arguments, kForm, "strftime_now").text(0, ""), now_);
  });
  add("namespace", [this](const Arguments& arguments) { return make_namespace(arguments); });
  add("range", [](const Arguments& arguments) -> Value {
    constexpr std::string_view kParameters[] = {"start", "stop", "step"};
    const Bound bound(arguments, kParameters, "range");
    const bool one = bound.find(1) == nullptr;
    const std::int64_t start = one ? 0 : need_whole(bound.need(0));
    const std::int64_t stop = need_whole(bound.need(one ? 0 : 1));
    const std::int64_t step = bound.whole(2, 1);
    if (step == 0) fail("a range's step must not be 0");
    Values items;
    bool ends = false;
    for (std::int64_t at = start; !ends && (step > 0 ? at < stop : at > stop);
         ends = __builtin_add_overflow(at, step, &at)) {
      if (items.size() == 100'000) fail("a range has at most 100000 items");  // as the sandbox's
      items.emplace_back(at);
    }
    return make_sequence(SequenceKind::kRange, std::move(items));
  });
  add("dict", [](const Arguments& arguments) -> Value {
    constexpr std::string_view kOther[] = {"other"};
    const Arguments positional{arguments.positional, {}};
    const Bound bound(positional, kOther, "dict");
    Entries entries;
    if (bound.find(0) != nullptr) {
      if (bound.find(0)->dict() == nullptr) fail("dict takes a dict or names");
      entries = bound.find(0)->dict()->entries;
    }
    for (const auto& [name, value] : arguments.named) set_entry(entries, name, value);
    return make_dict(std::move(entries));
  });
}

Value Interpreter::make_namespace(const Arguments& arguments) {
  const auto names = std::make_shared<Namespace>();
  for (const Value& other : arguments.positional) {
    if (other.dict() == nullptr) fail("a namespace takes a dict or names");
    names->entries = other.dict()->entries;
    for (const auto& [name, value] : names->entries) count_value(value);
  }
  for (const auto& [name, value] : arguments.named) set_entry(names->entries, name, value);
  for (const auto& [name, value] : names->entries) {
    if (name.starts_with('_')) fail("a namespace's names must not begin with '_' (", name, ")");
  }
  namespaces_.push_back(names);
  return names;
}

void Interpreter::count_step(int line) {
  line_ = line;
  count_work(kStepBytes);
}

void Interpreter::write(const std::string& text) {
  count_work(text.size());
  *out_ += text;
  if (out_->size() > kMostTextBytes) fail("text has at most ", kMostTextBytes, " bytes");
}

Interpreter::Flow Interpreter::run(const Body& body, Scope& scope) {
  for (const Statement& statement : body) {
    const Flow flow = run(statement, scope);
    if (flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Interpreter::Flow Interpreter::run(const Statement& statement, Scope& scope) {
  const Nested nested(*this);
  count_step(statement.line);
  switch (statement.kind) {
    case StatementKind::kText: write(statement.text); break;
    case StatementKind::kOutput: write(to_text(evaluate(*statement.value, scope))); break;
    case StatementKind::kIf: return run_if(statement, scope);
    case StatementKind::kFor: return run_for(statement, scope);
    case StatementKind::kSet:
      assign(statement.target, evaluate(*statement.value, scope), scope);
      break;
    case StatementKind::kSetBlock:
      assign(statement.target, filtered_body(statement, scope), scope);
      break;
    case StatementKind::kMacro:
      set_entry(scope.names, statement.text, make_macro(statement, scope, statement.text));
      break;
    case StatementKind::kCall: write(to_text(call_with_body(statement, scope))); break;
    case StatementKind::kFilterBlock: write(to_text(filtered_body(statement, scope))); break;
    case StatementKind::kWith: run_with(statement, scope); break;
    case StatementKind::kGeneration: run_generation(statement, scope); break;
    case StatementKind::kBreak: return Flow::kBreak;
    case StatementKind::kContinue: return Flow::kContinue;
  }
  return Flow::kOn;
}

Interpreter::Flow Interpreter::run_if(const Statement& statement, Scope& scope) {
  for (const Branch& branch : statement.branches) {
    if (branch.condition == nullptr || truthy(evaluate(*branch.condition, scope)))
      return run(branch.body, scope);
  }
  return Flow::kOn;
}

// All items, or one after the other those that the loop's condition lets through.
void Interpreter::fill_loop(Loop& loop, const Statement& statement, Scope& scope) {
  Values items = iterate(evaluate(*statement.value, scope));
  if (statement.condition == nullptr) {
    loop.items = std::move(items);
    return;
  }
  loop.find_next = [this, &statement, &scope, items = std::move(items),
                    at = std::size_t{0}](Values& found) mutable {
    while (at < items.size()) {
      const Value& item = items[at++];
      Inner inner(*this, scope);
      assign(statement.target, item, *inner);
      if (!truthy(evaluate(*statement.condition, *inner))) continue;
      found.push_back(item);
      return true;
    }
    return false;
  };
}

Interpreter::Flow Interpreter::run_for(const Statement& statement, Scope& scope) {
  const auto loop = std::make_shared<Loop>();
  fill_loop(*loop, statement, scope);
  // As in jinja2, the else of a loop runs where no item came to the end of the body.
  bool completed = false;
  for (; loop->has(loop->index0 + 1); ++loop->index0) {
    count_step(statement.line);
    Inner inner(*this, scope);
    (*inner).names.emplace_back("loop", LoopPtr(loop));
    assign(statement.target, loop->items[loop->index0], *inner);
    const Flow flow = run(statement.body, *inner);
    if (flow == Flow::kBreak) break;
    completed |= flow == Flow::kOn;
  }
  // Whoever kept the loop sees its last turn, and looks into no scope that has ended.
  loop->find_next = nullptr;
  if (loop->index0 > 0 && loop->index0 == loop->items.size()) --loop->index0;
  if (completed || statement.otherwise.empty()) return Flow::kOn;
  Inner inner(*this, scope);
  return run(statement.otherwise, *inner);
}

std::string Interpreter::capture(const Body& body, Scope& scope) {
  std::string text;
  std::string* const outside = std::exchange(out_, &text);
  try {
    run(body, scope);
  } catch (const Failure&) {
    out_ = outside;
    throw;
  }
  out_ = outside;
  return text;
}

Value Interpreter::filtered_body(const Statement& statement, Scope& scope) {
  Inner inner(*this, scope);
  Value text = capture(statement.body, *inner);
  if (statement.value == nullptr) return text;
  Inner filters(*this, scope);
  (*filters).names.emplace_back(kBodyName, std::move(text));
  return evaluate(*statement.value, *filters);
}

void Interpreter::run_generation(const Statement& statement, Scope& scope) {
  Inner inner(*this, scope);
  const std::string text = capture(statement.body, *inner);
  if (out_ != &rendered_.text)
    fail("a generation block must not stand in a macro or a set block; move it");
  write(text);
  rendered_.generation.push_back({out_->size() - text.size(), out_->size()});
}

void Interpreter::run_with(const Statement& statement, Scope& scope) {
  Inner inner(*this, scope);
  for (const auto& [target, value] : statement.assignments)
    assign(target, evaluate(*value, scope), *inner);
  run(statement.body, *inner);
}

void Interpreter::assign(const Target& target, const Value& value, Scope& scope) {
  if (target.is_tuple) {
    const Values parts = iterate(value);
    if (parts.size() != target.parts.size())
      fail("as many values as names are required (", parts.size(), " and ", target.parts.size(),
           ")");
    for (std::size_t at = 0; at < parts.size(); ++at) assign(target.parts[at], parts[at], scope);
    return;
  }
  if (target.attribute.empty()) return set_entry(scope.names, target.name, value);
  const Value names = look_up(target.name, scope);
  const auto* space = names.get<NamespacePtr>();
  if (space == nullptr)
    fail("only a namespace's attributes can be set; write ", target.name, " = namespace(...)");
  if (target.attribute.starts_with('_'))
    fail("a namespace's names must not begin with '_' (", target.attribute, ")");
  set_entry((*space)->entries, target.attribute, value);
}

Value Interpreter::make_macro(const Statement& statement, Scope& scope, const std::string& name) {
  for (Scope* at = &scope; at != nullptr; at = at->parent) at->kept = true;
  return make_function(name, [this, &statement, &scope](const Arguments& arguments) {
    return call_macro(statement, scope, arguments);
  });
}

Value Interpreter::call_macro(const Statement& statement, Scope& scope,
                              const Arguments& arguments) {
  std::vector<std::string_view> names;
  for (const Parameter& parameter : statement.parameters) names.emplace_back(parameter.name);
  Arguments own = arguments;
  Inner inner(*this, scope);
  const auto caller = std::find_if(own.named.begin(), own.named.end(),
                                   [](const auto& entry) { return entry.first == "caller"; });
  (*inner).names.emplace_back("caller", Undefined{"the macro was called without a body"});
  if (caller != own.named.end()) {
    (*inner).names.back().second = std::move(caller->second);
    own.named.erase(caller);
  }
  const Bound bound(own, names, statement.text.empty() ? "caller" : statement.text);
  for (std::size_t at = 0; at < names.size(); ++at) {
    count_work(kItemBytes);
    const Parameter& parameter = statement.parameters[at];
    Value value = Undefined{core::concat("the parameter \"", parameter.name, "\" was not given")};
    if (bound.find(at) != nullptr) {
      value = *bound.find(at);
    } else if (parameter.otherwise != nullptr) {
      value = evaluate(*parameter.otherwise, *inner);
    }
    set_entry((*inner).names, parameter.name, std::move(value));
  }
  return capture(statement.body, *inner);
}

Value Interpreter::call_with_body(const Statement& statement, Scope& scope) {
  const Value body = make_macro(statement, scope, "caller");
  return call(*statement.value, scope, &body);
}

// Expressions.

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
