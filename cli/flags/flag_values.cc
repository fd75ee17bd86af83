#include "cli/flags/flag_values.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cxxopts.hpp>
#include <nlohmann/json.hpp>

#include "cli/deepspeed/value_types.h"
#include "core/text.h"

namespace fm::cli {
namespace {

cxxopts::Options make_options(const Program& program) {
  cxxopts::Options options(program.name, std::string(program.purpose) + "\n");
  options.custom_help(program.usage);
  options.set_width(100);
  for (const FlagRow& flag : program.flags) {
    const std::shared_ptr<cxxopts::Value> value = cxxopts::value<std::string>();
    if (*flag.otherwise != '\0') value->default_value(flag.otherwise);
    const std::string more = flag.more_help == nullptr ? "" : flag.more_help();
    options.add_options(flag.group)(flag.name, flag.help + more, value);
  }
  options.add_options("Other")("help", "this text")("version", "version of fmengine");
  return options;
}

// Whether `word` is the value of the flag before it.
bool is_value(const std::string& word, const std::string& before, std::span<const FlagRow> flags) {
  if (!before.starts_with("--") || before.find('=') != before.npos) return false;
  std::string name = before.substr(2);
  std::replace(name.begin(), name.end(), '-', '_');
  const auto row = std::find_if(flags.begin(), flags.end(),
                                [&](const FlagRow& each) { return name == each.name; });
  return row != flags.end() && (row->kind != FlagKind::kBool || parse_bool(word));
}

// Also 1e3 and 1000.0, which files of flags have.
std::optional<std::int64_t> whole_number(const std::string& word) {
  const std::optional<std::int64_t> value = core::integer_of(word);
  if (value) return value;
  constexpr double kExact = 9007199254740992.0;  // 2^53
  const std::optional<double> number = core::number_of(word);
  const bool whole = number && std::abs(*number) < kExact && std::trunc(*number) == *number;
  return whole ? std::optional(static_cast<std::int64_t>(*number)) : std::nullopt;
}

}  // namespace

std::string help_text(const Program& program) {
  std::vector<std::string> groups;  // in the order of the table
  for (const FlagRow& flag : program.flags) {
    if (std::ranges::find(groups, flag.group) == groups.end()) groups.emplace_back(flag.group);
  }
  groups.emplace_back("Other");
  std::string text = make_options(program).help(groups);
  if (!program.variables.empty()) text += "\n Environment options:\n";
  for (const VariableRow& variable : program.variables) {
    char line[128];
    std::snprintf(line, sizeof(line), "      %-20s %s\n", variable.name, variable.help);
    text += line;
  }
  return text;
}

FlagValues::FlagValues(const Program& program, const std::vector<std::string>& normal) {
  std::set<std::string> launch;  // launchers write theirs before the user's, and set variables too
  for (const FlagRow& flag : program.flags) {
    values_[flag.name] = flag.otherwise;
    if (std::string_view(flag.group) == kLaunchFlags) launch.insert(flag.name);
    if (flag.kind == FlagKind::kList) lists_[flag.name] = {};
  }
  for (const std::string& word : normal) {  // --name=value
    const std::size_t equals = word.find('=');
    FM_CHECK(word.starts_with("--") && equals != std::string::npos, "not normalised: ", word);
    const std::string name = word.substr(2, equals - 2);
    FM_CHECK(values_.contains(name), "not in the table: ", name);
    const std::string value = word.substr(equals + 1);
    const bool first = given_.insert(name).second;
    if (const auto list = lists_.find(name); list != lists_.end()) {
      list->second.push_back(value);
      continue;
    }
    FM_USER_CHECK(first || value == values_[name] || launch.contains(name), "--", name,
                  " is given twice; keep one (", values_[name], ", ", value, ")");
    values_[name] = value;
  }
}

std::vector<std::string> FlagValues::list(const std::string& name) const { return lists_.at(name); }

std::int64_t FlagValues::integer(const std::string& name, std::int64_t least,
                                 std::int64_t most) const {
  const std::string word = text(name);
  const std::optional<std::int64_t> value = whole_number(word);
  FM_USER_CHECK(
      value && *value >= least && *value <= most, "--", name, " must be a whole number, at least ",
      least,
      most == std::numeric_limits<std::int64_t>::max() ? "" : core::concat(", at most ", most),
      "; correct it (", word, ")");
  return *value;
}

int FlagValues::small(const std::string& name, int least) const {
  return static_cast<int>(integer(name, least, std::numeric_limits<int>::max()));
}

double FlagValues::number(const std::string& name, double least) const {
  const std::optional<double> value = core::number_of(text(name));
  FM_USER_CHECK(value && *value >= least, "--", name, " must be a number, at least ", least,
                "; correct it (", text(name), ")");
  return *value;
}

SplitWords split_words(std::span<const std::string> words, std::span<const FlagRow> flags) {
  SplitWords out;
  for (std::size_t at = 0; at < words.size(); ++at) {
    const bool flag =
        words[at].starts_with("-") || (at > 0 && is_value(words[at], words[at - 1], flags));
    (flag ? out.flagged : out.plain).push_back(words[at]);
  }
  return out;
}

std::vector<std::string> FlagValues::tokens(const std::string& name) const {
  const std::string words = text(name);
  std::vector<std::string> tokens;
  if (words.empty()) return tokens;
  if (words.starts_with('[')) {
    const auto list = nlohmann::json::parse(words, nullptr, false);
    const bool strings = list.is_array() && std::ranges::all_of(list, [](const auto& item) {
                           return item.is_string();
                         });
    if (strings) tokens = list.get<std::vector<std::string>>();
  } else {
    tokens = core::split(words, ',');
  }
  const bool plain = std::ranges::all_of(tokens, [](const std::string& token) {
    constexpr const char* kSpace = " \t\r\n";
    return !token.empty() && token.find_first_of(kSpace) != 0 &&
           token.find_last_of(kSpace) != token.size() - 1;
  });
  FM_USER_CHECK(plain && !tokens.empty(), "--", name,
                " must be a list of tokens without spaces around them, as "
                "<|im_start|>,<|im_end|> or [\"a,b\"]; correct it (",
                words, ")");
  return tokens;
}

}  // namespace fm::cli
