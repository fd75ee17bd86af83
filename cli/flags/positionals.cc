#include "cli/flags/positionals.h"

#include <algorithm>

#include "cli/deepspeed/value_types.h"

namespace fm::cli {
namespace {

// Whether `word` is the value of the flag before it.
bool is_value(const std::string& word, const std::string& before, std::span<const FlagRow> flags) {
  if (!before.starts_with("--") || before.find('=') != before.npos) return false;
  const auto row = std::find_if(flags.begin(), flags.end(),
                                [&](const FlagRow& each) { return before.substr(2) == each.name; });
  return row != flags.end() && (row->kind != FlagKind::kBool || parse_bool(word));
}

}  // namespace

SplitWords split_words(std::span<const std::string> words, std::span<const FlagRow> flags) {
  SplitWords out;
  for (std::size_t at = 0; at < words.size(); ++at) {
    const bool flag =
        words[at].starts_with("-") || (at > 0 && is_value(words[at], words[at - 1], flags));
    (flag ? out.flagged : out.plain).push_back(words[at]);
  }
  return out;
}

}  // namespace fm::cli
