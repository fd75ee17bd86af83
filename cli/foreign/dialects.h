// What files of axolotl and LLaMA-Factory say by several keys together, or by none.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/foreign/foreign_keys.h"
#include "core/json_tree.h"

namespace fm::cli {

// A key of a file, and its values. Lists have several; what says nothing has none.
struct Setting {
  std::string key;
  std::vector<std::string> values;
  int line = 0;
};

struct Settings {
  std::vector<Setting> rows;
  std::vector<std::string> defaults;  // "--flag=value", where neither file nor command line says it
  std::vector<std::string> problems;  // "dataset: ..."
  // Flags of the command line, which win, without dashes, and their values.
  std::map<std::string, std::string> said = {};

  const Setting* find(const std::string& key) const;  // null: it is not there, or says nothing
  std::string text(const std::string& key) const;     // "": the same
  // Of the flag where the command line has it, else of the key, else `otherwise`.
  double number(const std::string& flag, const std::string& key, double otherwise) const;
  void set(const std::string& key, const std::string& value, int line);
  void drop_all(const std::string& start);  // of names
  void drop(const std::string& key);
};

Dialect dialect_of(const core::JsonTree& root);

// Rewrites what one key cannot say alone, and adds the program's own defaults.
void prepare(Dialect dialect, Settings& settings);

}  // namespace fm::cli
