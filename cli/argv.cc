#include "cli/argv.h"

#include <algorithm>

#include "cli/ds_config_keys.h"
#include "cli/foreign_flags.h"
#include "cli/value_types.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::cli {
namespace {

// One flag as it was written, split at "=".
struct Written {
  std::string word;
  std::string name;  // underscores
  bool has_value = false;
  std::string value;
};

Written split_word(const std::string& word) {
  Written written{.word = word, .name = word.substr(2), .value = {}};
  const std::size_t equals = written.name.find('=');
  if (equals != std::string::npos) {
    written.has_value = true;
    written.value = written.name.substr(equals + 1);
    written.name.resize(equals);
  }
  std::replace(written.name.begin(), written.name.end(), '-', '_');
  return written;
}

bool is_flag(std::string_view name, std::span<const FlagRow> flags) {
  return std::any_of(flags.begin(), flags.end(),
                     [&](const FlagRow& each) { return name == each.name; });
}

// A key of the JSON written as a flag, or another program's flag, in programs that have such a
// file.
void check_other_words(const Written& written, std::span<const FlagRow> flags) {
  if (!is_flag("deepspeed_config", flags)) return;
  const std::string advice = advice_on_foreign_flag(written.name);
  FM_USER_CHECK(advice.empty(), "unknown flag ", written.word.substr(0, written.word.find('=')),
                "; ", advice);
  const std::string path = path_of_flag(written.name);
  FM_USER_CHECK(path.empty(), "--", written.name, " is a key of the DeepSpeed JSON (", path,
                "); set it in --deepspeed_config FILE");
}

// Hugging Face's Trainer names its JSON there, DeepSpeed's own parser takes nothing.
bool names_config(const Written& written, const std::string& next) {
  if (written.name != "deepspeed") return false;
  const std::string& value = written.has_value ? written.value : next;
  return !value.empty() && !value.starts_with("--") && !parse_bool(value);
}

// The Trainer's name becomes ours.
void rename(Written& written, const std::string& next, std::span<const FlagRow> flags) {
  if (!is_flag("deepspeed_config", flags)) return;
  if (names_config(written, next)) written.name = "deepspeed_config";
  for (const FlagAlias& alias : train_aliases()) {
    if (written.name == alias.name) written.name = alias.of;
  }
}

const FlagRow& find_flag(const Written& written, std::span<const FlagRow> flags) {
  const auto row = std::find_if(flags.begin(), flags.end(),
                                [&](const FlagRow& each) { return written.name == each.name; });
  if (row != flags.end()) return *row;
  check_other_words(written, flags);
  std::vector<std::string> names = {"help", "version"};
  for (const FlagRow& each : flags) names.emplace_back(each.name);
  const std::string near = core::nearest(written.name, names);
  FM_USER_CHECK(false, "unknown flag ", written.word.substr(0, written.word.find('=')), "; ",
                near.empty() ? "see --help" : "did you mean --" + near + "?");
}

std::string boolean_word(const Written& written) {
  const std::optional<bool> parsed = parse_bool(written.value);
  FM_USER_CHECK(parsed, "--", written.name, " must be true or false; correct it (", written.value,
                ")");
  return *parsed ? "true" : "false";
}

// --resume_from_checkpoint True: the newest, which must be there.
std::string resume_word(const std::string& value) {
  const std::optional<bool> yes = parse_bool(value);
  return !yes ? value : *yes ? "must" : "never";
}

}  // namespace

std::vector<std::string> normalise_argv(std::span<const std::string> words,
                                        std::span<const FlagRow> flags) {
  std::vector<std::string> normal;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "-h") {
      normal.emplace_back("--help");
      continue;
    }
    FM_USER_CHECK(word.size() > 2 && word.starts_with("--"),
                  "only flags (--name value) are understood; remove or quote the stray word (",
                  word, ")");
    Written written = split_word(word);
    if (written.name == "help" || written.name == "version") {
      normal.push_back("--" + written.name);
      continue;
    }
    const std::string as_written = written.name;
    rename(written, i + 1 < words.size() ? words[i + 1] : "", flags);
    const FlagRow& flag = find_flag(written, flags);
    const bool boolean = flag.kind == FlagKind::kBool;
    // "-h" is help, not the value of a boolean.
    const bool next_fits = i + 1 < words.size() && !words[i + 1].starts_with(boolean ? "-" : "--");
    if (!written.has_value && next_fits) {
      written.value = words[++i];
    } else if (!written.has_value) {
      FM_USER_CHECK(boolean, "--", written.name, " needs a value; write --", written.name,
                    " VALUE, or --", written.name, "=VALUE when it starts with --");
      written.value = "true";
    }
    if (as_written == "resume_from_checkpoint") written.value = resume_word(written.value);
    const std::string start = "--" + written.name + "=";
    normal.push_back(start + (boolean ? boolean_word(written) : written.value));
    while (flag.kind == FlagKind::kList && i + 1 < words.size() && !words[i + 1].starts_with("-")) {
      normal.push_back(start + words[++i]);
    }
  }
  return normal;
}

}  // namespace fm::cli
