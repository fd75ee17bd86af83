// A template as a tree: statements and expressions, each with its line.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/operators.h"
#include "text/jinja/value.h"

namespace fm::jinja {

enum class ExpressionKind : std::uint8_t {
  kConstant,
  kName,       // text
  kList,       // parts
  kTuple,      // parts
  kDict,       // parts: key, value, key, value, ...
  kAttribute,  // parts[0].text
  kItem,       // parts[0][parts[1]]
  kSlice,      // parts[0][parts[1]:parts[2]:parts[3]]; bounds may be null
  kCall,       // parts[0](parts[1...], named)
  kFilter,     // parts[0]|text(parts[1...], named)
  kTest,       // parts[0] is text(parts[1...], named)
  kNot,        // parts[0], as the next two
  kNegate,
  kPlus,
  kArithmetic,  // parts[0] operation parts[1]
  kCompare,     // parts[0] comparisons[0] parts[1] comparisons[1] parts[2] ...
  kAnd,         // parts[0], parts[1], as the next
  kOr,
  kConcat,       // parts
  kConditional,  // parts[1] if parts[0] else parts[2]; without parts[2]: undefined
};

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct Expression {
  ExpressionKind kind = ExpressionKind::kConstant;
  int line = 0;
  int depth = 1;
  std::string text;
  Value constant;
  std::vector<ExpressionPtr> parts;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  Operator operation = Operator::kAdd;
  std::vector<Comparison> comparisons;
};

// What a set or a for assigns to: a name, an attribute of a namespace, or several of them.
struct Target {
  std::string name = {};
  std::string attribute = {};  // "": the name itself
  std::vector<Target> parts = {};
  bool is_tuple = false;
};

struct Parameter {
  std::string name;
  ExpressionPtr otherwise;  // null: it has no default
};

enum class StatementKind : std::uint8_t {
  kText,         // text
  kOutput,       // value
  kIf,           // branches
  kFor,          // target in value if condition: body, or otherwise where there was no item
  kSet,          // target = value
  kSetBlock,     // target = value of body; value is null or a chain of filters of kBodyName
  kMacro,        // text(parameters): body
  kCall,         // value, a call, with caller(parameters): body
  kFilterBlock,  // value, a chain of filters of kBodyName: body
  kWith,         // assignments: body
  kGeneration,   // body
  kBreak,
  kContinue,
};

// The name under which a chain of filters finds the text of a body; no template can write it.
inline constexpr const char* kBodyName = "(body)";

struct Statement;
using Body = std::vector<Statement>;

struct Branch {
  ExpressionPtr condition;  // null: else
  Body body;
};

struct Statement {
  StatementKind kind = StatementKind::kText;
  int line = 0;
  std::string text = {};
  Target target = {};
  ExpressionPtr value = {};
  ExpressionPtr condition = {};
  std::vector<Parameter> parameters = {};
  std::vector<std::pair<Target, ExpressionPtr>> assignments = {};
  std::vector<Branch> branches = {};
  Body body = {};
  Body otherwise = {};
};

}  // namespace fm::jinja
