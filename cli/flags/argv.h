// The words of a command line in one normal form: every flag one word, --name=value, with
// underscores. Accepts --flag, --flag true, --flag=false for booleans, - and _ alike in names.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/flags/flags.h"

namespace fm::cli {

struct NormalLine {
  std::vector<std::string> words;
  std::vector<std::string> notes;  // flags of other programs that change nothing, and why
};

// Throws UserError (10): unknown flags (all of them, with the cure or the nearest known one),
// missing value, stray word. -h and --help become --help, --version stays; a value of theirs is
// dropped.
NormalLine normalise_argv(std::span<const std::string> words, std::span<const FlagRow> flags);

}  // namespace fm::cli
