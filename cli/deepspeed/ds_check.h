// Holds a DeepSpeed JSON against the table of keys, before anything is taken from it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/deepspeed/hjson.h"
#include "core/types.h"

namespace fm::cli {

// --precision: overrides what the JSON says of element types, by name. Absent: as the JSON says.
using PrecisionFlag = std::optional<core::DType>;

// What a reader of the JSON asks about it; paths are "zero_optimization.stage".
//
// Lifetime: not longer than the value and the name.
class JsonView {
 public:
  JsonView(const JsonTree& root, const std::string& name) : root_(root), name_(name) {}

  // Null when absent, null in the file, or "auto".
  const JsonTree* get(const std::string& path) const;
  // Whatever is there, or null.
  const JsonTree* raw(const std::string& path) const;
  bool asks_auto(const std::string& path) const;
  int line(const std::string& path) const;  // 0 when the path is absent
  // "llama.json:12"; the name alone when the path is absent.
  std::string where(const std::string& path) const;

  bool flag(const std::string& path, bool otherwise) const;
  double number(const std::string& path, double otherwise) const;
  std::int64_t integer(const std::string& path, std::int64_t otherwise) const;
  std::string text(const std::string& path, const std::string& otherwise) const;

 private:
  const JsonTree& root_;
  const std::string& name_;
};

struct Finding {
  std::string why;                // "gradients are always fp32"
  std::vector<std::string> what;  // "bf16.immediate_grad_update"
};

struct Problem {
  int line = 0;  // 0: of no line
  std::string text;
};

struct Findings {
  std::vector<Problem> problems;
  std::vector<Finding> ignored;                // keys only, grouped by reason
  std::vector<std::string> defaults;           // keys that are "auto", "key (value)"
  std::map<std::string, std::string> origins;  // of values that are not the file's, by path
  std::vector<std::string> notes;  // unknown, deprecated, overridden keys: whole sentences

  // `what`: "amp = {...}".
  void refuse(int line, const std::string& what, const std::string& why);
  // Runs `read`; a UserError that it throws is a problem, of the line that it names as
  // "(name:line: value)".
  void collect(const std::string& name, const std::function<void()>& read);
};

// Unknown keys that DeepSpeed would refuse, or that are near a known one.
enum class Unknown : std::uint8_t { kRefused, kNoted };

// Problems are an unknown key inside a modelled block or near a known one, a name with a dot in it,
// a wrong type, what cannot be honoured, and an old key beside its new one. A value of the wrong
// type is null from then on.
void check_settings(JsonTree& root, const std::string& name, PrecisionFlag precision,
                    Unknown unknown, Findings& findings);

// Throws UserError (10) with every problem, one per line in the order of the file, if there is one.
void throw_problems(const Findings& findings, const std::string& name);

// Sentences for banner and plan.
std::vector<std::string> to_notes(const Findings& findings);

}  // namespace fm::cli
