// Words of a command line that are no flags.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/flags/flags.h"

namespace fm::cli {

struct SplitWords {
  std::vector<std::string> flagged;  // flags and their values
  std::vector<std::string> plain;
};
SplitWords split_words(std::span<const std::string> words, std::span<const FlagRow> flags);

}  // namespace fm::cli
