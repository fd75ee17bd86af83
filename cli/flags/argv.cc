#include "cli/flags/argv.h"

#include <algorithm>

#include "cli/deepspeed/ds_config_keys.h"
#include "cli/deepspeed/value_types.h"
#include "cli/foreign/foreign_keys.h"
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

// fmengine-train alone is asked what others are asked for, too.
bool is_train(std::span<const FlagRow> flags) { return is_flag("deepspeed_config", flags); }

// torchtitan's sections, as parallelism., may stand before a name.
std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

// What is said of a name that this program does not have: the row of another one, which may have
// read it out of a file. Keys of the JSON come before the latter.
std::string advice(const UnknownName& unknown) {
  const auto known = [&](std::span<const ForeignKey> rows) -> std::string {
    const ForeignKey* const row = find_key(rows, last_part(unknown.name));
    if (row == nullptr) return "";
    return core::concat(unknown.shown, " is a ", unknown.kind, " of other programs; ",
                        describe(*row));
  };
  if (std::string said = known(parallel_keys()); !said.empty()) return said;
  const std::string path = path_of_flag(unknown.name);
  if (!path.empty()) {
    return core::concat(unknown.kind == std::string_view("flag") ? "--" : "", unknown.name,
                        " is a key of the DeepSpeed JSON (", path,
                        "); set it in --deepspeed_config FILE");
  }
  const std::string said = known(axolotl_keys());
  return said.empty() ? known(factory_keys()) : said;
}

bool is_flag_file(const std::string& word) {
  return !word.starts_with("-") &&
         (word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".json"));
}

std::string boolean_word(const std::string& name, const std::string& value) {
  const std::optional<bool> parsed = parse_bool(value);
  FM_USER_CHECK(parsed, "--", name, " must be true or false; correct it (", value, ")");
  return *parsed ? "true" : "false";
}

// One word after the other becomes normal; what is not understood is collected.
class Normaliser {
 public:
  Normaliser(std::span<const std::string> words, std::span<const FlagRow> flags)
      : words_(words), flags_(flags) {}

  NormalLine run() {
    for (; at_ < words_.size(); ++at_) take(words_[at_]);
    for (const Overruled& each : overruled_) judge(each);
    FM_USER_CHECK(problems_.empty(), joined());
    return std::move(line_);
  }

 private:
  void take(const std::string& word) {
    if (word == "-h") return line_.words.emplace_back("--help"), void();
    // As for Hugging Face's scripts and LLaMA-Factory, a first word may be a file of flags.
    if (at_ == 0 && is_train(flags_) && is_flag_file(word)) {
      return line_.words.push_back("--config=" + word);
    }
    if (word.size() <= 2 || !word.starts_with("--")) {
      return problems_.push_back(core::concat(
          "only flags (--name value) are understood; remove or quote the stray word (", word, ")"));
    }
    Written written = split_word(word);
    if (written.name == "help" || written.name == "version") {
      line_.words.push_back("--" + written.name);
      return;
    }
    line_.names.insert(written.name);
    const FlagRow* const own = find_flag(written.name, flags_);
    const ForeignKey* const row = is_train(flags_) ? trainer_key(written.name, own) : nullptr;
    if (row != nullptr) {
      take_foreign(*row, own, written);
    } else if (own != nullptr) {
      take_flag(*own, written);
    } else {
      take_values(written);
      const std::string shown = written.word.substr(0, written.word.find('='));
      problems_.push_back(unknown_name({"flag", shown, written.name}, flags_));
    }
  }

  // "-h" is help, not the value of a boolean; any other word that starts so may be a number.
  bool take_value(Written& written, std::string_view no_start) {
    const bool next_fits = at_ + 1 < words_.size() && !words_[at_ + 1].starts_with(no_start);
    if (!written.has_value && next_fits) written.value = words_[++at_];
    return written.has_value || next_fits;
  }

  // The values of a flag of another program, which may be a list; without one it is a switch.
  std::vector<std::string> take_values(Written& written) {
    if (!take_value(written, "--")) written.value = "true";
    std::vector<std::string> values = {written.value};
    while (at_ + 1 < words_.size() && !words_[at_ + 1].starts_with("-")) {
      values.push_back(words_[++at_]);
    }
    return values;
  }

  void take_flag(const FlagRow& flag, Written& written) {
    const bool boolean = flag.kind == FlagKind::kBool;
    if (!take_value(written, boolean ? "-" : "--")) {
      if (!boolean) {
        return problems_.push_back(core::concat("--", written.name, " needs a value; write --",
                                                written.name, " VALUE, or --", written.name,
                                                "=VALUE when it starts with --"));
      }
      written.value = "true";
    }
    if (is_no_number(flag, written.value)) return;
    add_values(flag, {written.value}, line_.words);
    while (flag.kind == FlagKind::kList && at_ + 1 < words_.size() &&
           !words_[at_ + 1].starts_with("-")) {
      add_values(flag, {words_[++at_]}, line_.words);
    }
  }

  // A flag of another program, or one of ours with its values.
  void take_foreign(const ForeignKey& row, const FlagRow* own, Written& written) {
    const std::vector<std::string> values = take_values(written);
    if (own == nullptr && values.size() == 1 && says_nothing(values[0])) return;
    const std::optional<Translated> ours = translate(row, values);
    const std::string shown = core::concat("--", written.name, " ", core::join(values, " "));
    if (!ours) {
      problems_.push_back(problem_of(row, shown));
      return overruled_.push_back({&row, written.name, problems_.back()});
    }
    if (ours->flags.empty() && own != nullptr) return add_values(*own, values, line_.words);
    if (ours->flags.empty()) {
      line_.notes.push_back(core::concat("--", written.name, " has no effect: ", row.why));
    }
    add_flags(*ours, flags_, line_);
  }

  // A key of another program that cannot be honoured, but for a flag of ours in its place.
  struct Overruled {
    const ForeignKey* row;
    std::string name;
    std::string problem;
  };

  void judge(const Overruled& each) {
    for (const std::string& flag : core::split(each.row->instead, ' ')) {
      const bool there = std::ranges::any_of(line_.words, [&](const std::string& word) {
        return word.starts_with("--" + flag + "=");
      });
      if (!there) continue;
      std::erase(problems_, each.problem);
      line_.notes.push_back(core::concat("--", each.name, " is not counted beside --", flag));
      return;
    }
  }

  static std::string problem_of(const ForeignKey& row, const std::string& shown) {
    if (!row.map.empty()) return refusal_of(row, shown);
    return core::concat(shown.substr(0, shown.find(' ')), " is a flag of other programs; ",
                        row.why);
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
  std::vector<Overruled> overruled_;
};

}  // namespace

bool is_no_number(const FlagRow& flag, const std::string& value) {
  const bool number = flag.kind == FlagKind::kInt || core::number_of(flag.otherwise).has_value();
  return number && core::lower(value) == "none";
}

const FlagRow* find_flag(std::string_view name, std::span<const FlagRow> flags) {
  const auto row =
      std::ranges::find_if(flags, [&](const FlagRow& each) { return name == each.name; });
  return row == flags.end() ? nullptr : &*row;
}

std::string unknown_name(const UnknownName& unknown, std::span<const FlagRow> flags) {
  const std::string start = core::concat("unknown ", unknown.kind, " ", unknown.shown, "; ");
  if (is_train(flags)) {
    if (std::string said = advice(unknown); !said.empty()) return said;
  }
  std::vector<std::string> names = {"help", "version"};
  for (const FlagRow& each : flags) names.emplace_back(each.name);
  const std::string near = core::nearest(unknown.name, names);
  return start + (near.empty() ? "see --help" : "did you mean --" + near + "?");
}

void add_values(const FlagRow& flag, const std::vector<std::string>& values,
                std::vector<std::string>& words) {
  const std::string start = core::concat("--", flag.name, "=");
  if (flag.kind == FlagKind::kList) {
    for (const std::string& value : values) words.push_back(start + value);
  } else {
    const std::string value = core::join(values, ",");
    words.push_back(start +
                    (flag.kind == FlagKind::kBool ? boolean_word(flag.name, value) : value));
  }
}

void add_flags(const Translated& ours, std::span<const FlagRow> flags, NormalLine& line) {
  for (const FlagWords& each : ours.flags) {
    const FlagRow* const flag = find_flag(each.flag, flags);
    FM_CHECK(flag != nullptr, "a foreign key becomes a flag that is not there: ", each.flag);
    add_values(*flag, each.values, each.is_default ? line.defaults : line.words);
  }
}

std::string name_of_word(const std::string& word) { return word.substr(2, word.find('=') - 2); }

void complete(NormalLine& line) {
  std::set<std::string> said;
  for (const std::string& word : line.words) said.insert(name_of_word(word));
  std::set<std::string> added;
  for (const std::string& word : line.defaults) {
    const std::string name = name_of_word(word);
    if (!said.contains(name) && added.insert(name).second) line.words.push_back(word);
  }
  line.defaults.clear();
}

const ForeignKey* trainer_key(const std::string& name, const FlagRow* own) {
  const ForeignKey* const row = find_key(trainer_keys(), name);
  return row != nullptr && own != nullptr && row->map.empty() ? nullptr : row;
}

NormalLine normalise_argv(std::span<const std::string> words, std::span<const FlagRow> flags) {
  return Normaliser(words, flags).run();
}

}  // namespace fm::cli
