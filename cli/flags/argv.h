// The words of a command line in one normal form: every flag one word, --name=value, with
// underscores. Accepts --flag, --flag true, --flag=false for booleans, - and _ alike in names.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "cli/flags/flags.h"
#include "cli/foreign/foreign_keys.h"

namespace fm::cli {

struct NormalLine {
  std::vector<std::string> words;
  std::vector<std::string> defaults;  // words that count where no other says their flag
  std::vector<std::string> notes;     // flags of other programs that change nothing, and why
  std::set<std::string> names;        // of all flags, as they were written
};

// Throws UserError (10): unknown flags (all of them, with the cure or the nearest known one),
// missing value, stray word. -h and --help become --help, --version stays; a value of theirs is
// dropped.
NormalLine normalise_argv(std::span<const std::string> words, std::span<const FlagRow> flags);

// Parts of it, which the words of a file share.

// A name that neither this program nor a table of others has.
struct UnknownName {
  const char* kind;   // "flag", "key"
  std::string shown;  // as it was written
  std::string name;   // with underscores
};
// What to do about it. A key of the JSON, or another program's flag, is known in programs that have
// such a file.
std::string unknown_name(const UnknownName& unknown, std::span<const FlagRow> flags);

// Whether the value is what Python prints where a script was given no number.
bool is_no_number(const FlagRow& flag, const std::string& value);

// Null where there is none.
const FlagRow* find_flag(std::string_view name, std::span<const FlagRow> flags);
// The row of Hugging Face's Trainer, or null; one that honours no value gives way to a flag of
// ours.
const ForeignKey* trainer_key(const std::string& name, const FlagRow* own);
// Throws UserError (10) for a boolean that is none.
void add_values(const FlagRow& flag, const std::vector<std::string>& values,
                std::vector<std::string>& words);
void add_flags(const Translated& ours, std::span<const FlagRow> flags, NormalLine& line);

// The flag of "--flag=value".
std::string name_of_word(const std::string& word);

// The defaults become words, the first one of each flag.
void complete(NormalLine& line);

}  // namespace fm::cli
