// Renders a tree with variables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "text/jinja/tree.h"
#include "text/jinja/value.h"
#include "text/jinja/work_limit.h"

namespace fm::jinja {

// Bytes [begin, end) of a text.
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const Span&) const = default;
};

struct Rendered {
  std::string text;
  std::vector<Span> generation;  // what {% generation %} blocks wrote, in order of their ends
};

inline constexpr int kMostDepth = 600;  // of statements and expressions in macros in expressions

// Names of a block's body; others are looked for in `parent`.
struct Scope {
  Scope* parent = nullptr;
  Entries names;
  bool kept = false;  // a macro was made here, which may outlive the block
};

// Invariant: every Scope that a macro may look into lives as long as this object.
// Thread:    one.
// Lifetime:  the tree must outlive it; values that it made die with it.
class Interpreter {
 public:
  Interpreter(const Body& body, std::time_t now) : body_(body), now_(now) {}
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;
  ~Interpreter();

  // Once. Throws Failure; line() is where.
  Rendered render(const Entries& variables);
  int line() const { return line_; }

 private:
  enum class Flow : std::uint8_t { kOn, kBreak, kContinue };
  // A scope inside another one, for the time of a block.
  class Inner {
   public:
    Inner(Interpreter& interpreter, Scope& parent);
    Inner(const Inner&) = delete;
    Inner& operator=(const Inner&) = delete;
    ~Inner();
    Scope& operator*() { return *scope_; }

   private:
    Interpreter& interpreter_;
    std::unique_ptr<Scope> scope_;
  };
  // One level of run() or evaluate(), counted.
  class Nested {
   public:
    explicit Nested(Interpreter& interpreter);
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    ~Nested() { --interpreter_.nesting_; }

   private:
    Interpreter& interpreter_;
  };

  void add_globals();
  Value make_namespace(const Arguments& arguments);

  Flow run(const Body& body, Scope& scope);
  Flow run(const Statement& statement, Scope& scope);
  Flow run_if(const Statement& statement, Scope& scope);
  Flow run_for(const Statement& statement, Scope& scope);
  void run_generation(const Statement& statement, Scope& scope);
  void run_with(const Statement& statement, Scope& scope);
  std::string capture(const Body& body, Scope& scope);
  Value filtered_body(const Statement& statement, Scope& scope);
  void fill_loop(Loop& loop, const Statement& statement, Scope& scope);
  Value make_macro(const Statement& statement, Scope& scope, const std::string& name);
  Value call_macro(const Statement& statement, Scope& scope, const Arguments& arguments);
  Value call_with_body(const Statement& statement, Scope& scope);
  void assign(const Target& target, const Value& value, Scope& scope);
  void write(const std::string& text);

  Value evaluate(const Expression& expression, Scope& scope);
  Value compute(const Expression& expression, Scope& scope);
  Value look_up(const std::string& name, const Scope& scope) const;
  Value make_dict_of(const Expression& expression, Scope& scope);
  Value take_slice(const Expression& expression, Scope& scope);
  Value call(const Expression& expression, Scope& scope, const Value* body);
  Value compare_chain(const Expression& expression, Scope& scope);
  Value concatenate(const Expression& expression, Scope& scope);
  Value choose(const Expression& expression, Scope& scope);
  Values evaluate_parts(const Expression& expression, Scope& scope, std::size_t from);
  Arguments arguments_of(const Expression& expression, Scope& scope);
  void count_step(int line);

  const Body& body_;
  std::time_t now_;
  Scope globals_;
  Rendered rendered_;
  std::string* out_ = &rendered_.text;
  std::vector<std::unique_ptr<Scope>> kept_;
  std::vector<NamespacePtr> namespaces_;  // emptied at the end: they may hold each other
  LimitedWork limit_;
  int nesting_ = 0;
  int line_ = 1;
};

}  // namespace fm::jinja
