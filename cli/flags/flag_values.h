// The values of a program's flags, by the flag's name. cxxopts writes the help text only: it
// matches every word with a recursive std::regex, which ends in a stack overflow on a long one and
// does not know line ends.
#pragma once

#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/flags/flags.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::cli {

struct Program {
  const char* name;
  const char* purpose;  // one sentence
  const char* usage;    // what follows the name
  std::span<const FlagRow> flags;
  std::span<const VariableRow> variables = {};
};

// Grouped by FlagRow::group.
std::string help_text(const Program& program);

// Getters take names of the table and throw UserError (10) that names the flag.
class FlagValues {
 public:
  // `normal`: words of normalise_argv.
  FlagValues(const Program& program, const std::vector<std::string>& normal);

  bool given(const std::string& name) const { return given_.contains(name); }
  // The default when not given.
  std::string text(const std::string& name) const { return values_.at(name); }
  // All words of a kList, in order.
  std::vector<std::string> list(const std::string& name) const;
  bool flag(const std::string& name) const { return text(name) == "true"; }
  std::int64_t integer(const std::string& name, std::int64_t least,
                       std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;
  int small(const std::string& name, int least) const;
  double number(const std::string& name, double least) const;
  // "<|im_start|>,<|im_end|>", or a JSON list of strings where one holds a comma.
  std::vector<std::string> tokens(const std::string& name) const;

  // The value that belongs to the word of the flag.
  template <class T>
  T choice(const std::string& name, const std::vector<std::pair<std::string, T>>& choices) const {
    const std::string word = core::lower(text(name));
    std::vector<std::string> known;
    for (const auto& [key, value] : choices) {
      if (word == key) return value;
      if (!key.empty()) known.push_back(key);  // empty: where nobody says a word
    }
    const std::string near = core::nearest(word, known);
    FM_USER_CHECK(false, "--", name, " must be one of ", core::join(known, ", "), "; ",
                  near.empty() ? "choose one" : "did you mean " + near + "?", " (", text(name),
                  ")");
  }

 private:
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<std::string>> lists_;
  std::set<std::string> given_;
};

// Words of a command line that are no flags.

struct SplitWords {
  std::vector<std::string> flagged;  // flags and their values
  std::vector<std::string> plain;
};
SplitWords split_words(std::span<const std::string> words, std::span<const FlagRow> flags);

}  // namespace fm::cli
