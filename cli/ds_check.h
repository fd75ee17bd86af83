// Holds a DeepSpeed JSON against the table of keys, before anything is taken from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/hjson.h"
#include "core/types.h"

namespace fm::cli {

// --precision: overrides what the JSON says of element types, by name. Absent: as the JSON says.
using PrecisionFlag = std::optional<core::DType>;

// What a reader of the JSON asks about it; paths are "zero_optimization.stage".
//
// Lifetime: not longer than the value and the name.
class Settings {
 public:
  Settings(const Value& root, const std::string& name) : root_(root), name_(name) {}

  // Null when absent, null in the file, or "auto".
  const Value* get(const std::string& path) const;
  // Whatever is there, or null.
  const Value* raw(const std::string& path) const;
  bool asks_auto(const std::string& path) const;
  // "llama.json:12"; the name alone when the path is absent.
  std::string where(const std::string& path) const;

  bool flag(const std::string& path, bool otherwise) const;
  double number(const std::string& path, double otherwise) const;
  std::int64_t integer(const std::string& path, std::int64_t otherwise) const;
  std::string text(const std::string& path, const std::string& otherwise) const;

 private:
  const Value& root_;
  const std::string& name_;
};

struct Finding {
  std::string why;                // "only fp32 is there today"
  std::vector<std::string> what;  // "bf16.enabled = true (line 9)"
};

struct Findings {
  std::vector<Finding> refused;       // grouped by reason, in the order of the file
  std::vector<Finding> ignored;       // keys only
  std::vector<std::string> defaults;  // keys that are "auto", "key (value)"
  std::vector<std::string> notes;     // unknown, deprecated, overridden keys: whole sentences

  void refuse(const std::string& what, const std::string& why);
};

// Throws UserError (10) for an unknown key inside a modelled block or near a known one, a name with
// a dot in it, a wrong type, and an old key beside its new one. Refusals are collected, so that one
// message can list them all.
void check_settings(const Value& root, const std::string& name, PrecisionFlag precision,
                    Findings& findings);

// Throws UserError (10) with every refusal, if there is one.
void throw_refusals(const Findings& findings, const std::string& name);

// Sentences for banner and plan.
std::vector<std::string> to_notes(const Findings& findings);

}  // namespace fm::cli
