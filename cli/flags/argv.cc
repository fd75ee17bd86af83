#include "cli/flags/argv.h"

#include <algorithm>

#include "cli/deepspeed/ds_config_keys.h"
#include "cli/deepspeed/value_types.h"
#include "cli/flags/foreign_flags.h"
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

// What is wrong with a flag that the program does not have. A key of the JSON written as a flag, or
// another program's flag, is known in programs that have such a file.
std::string unknown_flag(const Written& written, std::span<const FlagRow> flags) {
  const std::string start =
      core::concat("unknown flag ", written.word.substr(0, written.word.find('=')), "; ");
  if (is_flag("deepspeed_config", flags)) {
    const std::string advice = advice_on_foreign_flag(written.name);
    if (!advice.empty()) return start + advice;
    const std::string path = path_of_flag(written.name);
    if (!path.empty()) {
      return core::concat("--", written.name, " is a key of the DeepSpeed JSON (", path,
                          "); set it in --deepspeed_config FILE");
    }
  }
  std::vector<std::string> names = {"help", "version"};
  for (const FlagRow& each : flags) names.emplace_back(each.name);
  const std::string near = core::nearest(written.name, names);
  return start + (near.empty() ? "see --help" : "did you mean --" + near + "?");
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

const FlagRow* find_flag(const Written& written, std::span<const FlagRow> flags) {
  const auto row = std::find_if(flags.begin(), flags.end(),
                                [&](const FlagRow& each) { return written.name == each.name; });
  return row == flags.end() ? nullptr : &*row;
}

const SilentFlag* find_silent(const Written& written, std::span<const FlagRow> flags) {
  if (!is_flag("deepspeed_config", flags)) return nullptr;
  const std::span<const SilentFlag> known = silent_flags();
  const auto row = std::find_if(known.begin(), known.end(),
                                [&](const SilentFlag& each) { return written.name == each.name; });
  return row == known.end() ? nullptr : &*row;
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

// The value "True" is that of "true": booleans are compared as such.
bool changes_nothing(const SilentFlag& flag, const std::string& value) {
  const std::optional<bool> given = parse_bool(value);
  for (const std::string& each : core::split(flag.values, ',')) {
    const std::optional<bool> silent = parse_bool(each);
    if (each == core::lower(value) || (silent && given && *silent == *given)) return true;
  }
  return flag.values.empty();
}

// One word after the other becomes normal; what is not understood is collected.
class Normaliser {
 public:
  Normaliser(std::span<const std::string> words, std::span<const FlagRow> flags)
      : words_(words), flags_(flags) {}

  NormalLine run() {
    for (; at_ < words_.size(); ++at_) take(words_[at_]);
    FM_USER_CHECK(problems_.empty(), joined());
    return std::move(line_);
  }

 private:
  void take(const std::string& word) {
    if (word == "-h") return line_.words.emplace_back("--help"), void();
    FM_USER_CHECK(word.size() > 2 && word.starts_with("--"),
                  "only flags (--name value) are understood; remove or quote the stray word (",
                  word, ")");
    Written written = split_word(word);
    if (written.name == "help" || written.name == "version") {
      line_.words.push_back("--" + written.name);
      return;
    }
    const std::string as_written = written.name;
    rename(written, at_ + 1 < words_.size() ? words_[at_ + 1] : "", flags_);
    if (const FlagRow* flag = find_flag(written, flags_)) {
      take_flag(*flag, written, as_written);
    } else {
      take_other(written);
    }
  }

  // "-h" is help, not the value of a boolean; any other word that starts so may be a number.
  bool take_value(Written& written, std::string_view no_start) {
    const bool next_fits = at_ + 1 < words_.size() && !words_[at_ + 1].starts_with(no_start);
    if (!written.has_value && next_fits) written.value = words_[++at_];
    return written.has_value || next_fits;
  }

  void take_flag(const FlagRow& flag, Written& written, const std::string& as_written) {
    const bool boolean = flag.kind == FlagKind::kBool;
    if (!take_value(written, boolean ? "-" : "--")) {
      FM_USER_CHECK(boolean, "--", written.name, " needs a value; write --", written.name,
                    " VALUE, or --", written.name, "=VALUE when it starts with --");
      written.value = "true";
    }
    if (as_written == "resume_from_checkpoint") written.value = resume_word(written.value);
    const std::string start = "--" + written.name + "=";
    line_.words.push_back(start + (boolean ? boolean_word(written) : written.value));
    while (flag.kind == FlagKind::kList && at_ + 1 < words_.size() &&
           !words_[at_ + 1].starts_with("-")) {
      line_.words.push_back(start + words_[++at_]);
    }
  }

  // A flag of another program.
  void take_other(Written& written) {
    const SilentFlag* silent = find_silent(written, flags_);
    if (silent == nullptr) problems_.push_back(unknown_flag(written, flags_));
    if (!take_value(written, "--")) written.value = "true";
    if (silent == nullptr) return;
    if (changes_nothing(*silent, written.value)) {
      line_.notes.push_back(core::concat("--", written.name, " has no effect: ", silent->why));
    } else {
      const std::vector<std::string> values = core::split(silent->values, ',');
      problems_.push_back(core::concat("--", written.name, " ", written.value,
                                       " cannot be honoured, only ", core::join(values, ", "),
                                       " can: ", silent->why));
    }
  }

  std::string joined() const {
    if (problems_.size() == 1) return problems_.front();
    return core::concat(problems_.size(), " flags are not understood; correct them\n  ",
                        core::join(problems_, "\n  "));
  }

  std::span<const std::string> words_;
  std::span<const FlagRow> flags_;
  std::size_t at_ = 0;
  NormalLine line_;
  std::vector<std::string> problems_;
};

}  // namespace

NormalLine normalise_argv(std::span<const std::string> words, std::span<const FlagRow> flags) {
  return Normaliser(words, flags).run();
}

}  // namespace fm::cli
