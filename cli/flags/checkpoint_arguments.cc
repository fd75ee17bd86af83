#include "cli/flags/checkpoint_arguments.h"

#include <algorithm>
#include <limits>
#include <thread>

#include "cli/flags/argv.h"
#include "cli/flags/flag_values.h"
#include "core/text.h"
#include "machine/cores.h"

namespace fm::cli {
namespace {

constexpr FlagRow kListRows[] = {
    {"json", FlagKind::kBool, "false", "Flags", "as one JSON object"},
};
constexpr FlagRow kVerifyRows[] = {
    {"all", FlagKind::kBool, "false", "Flags", "every checkpoint of an output directory"},
    {"threads", FlagKind::kInt, "", "Flags", "that read at once; else 4 to 8, by the cores"},
    {"json", FlagKind::kBool, "false", "Flags", "as one JSON object"},
};
constexpr FlagRow kPruneRows[] = {
    {"keep_last", FlagKind::kInt, "", "Flags", "keep the newest N complete ones of each run"},
    {"keep_every", FlagKind::kInt, "0", "Flags", "keep those whose step is a multiple of M, too"},
    {"yes", FlagKind::kBool, "false", "Flags", "delete; else it is only said what would go"},
    {"dry_run", FlagKind::kBool, "false", "Flags", "delete nothing, as without --yes"},
};
constexpr FlagRow kDiffRows[] = {
    {"atol", FlagKind::kText, "0", "Flags", "numbers this close are the same; 0: equal bits"},
    {"most", FlagKind::kInt, "20", "Flags", "print the N tensors that differ most; 0: all"},
    {"json", FlagKind::kBool, "false", "Flags", "as one JSON object"},
};

struct VerbRow {
  const char* word;
  CheckpointVerb verb;
  std::size_t paths;
  Program program;
};

constexpr VerbRow kVerbs[] = {
    {"ls",
     CheckpointVerb::kList,
     1,
     {.name = "fmengine-checkpoint ls",
      .purpose = "Lists the checkpoints of an output directory, and what killed runs left there.",
      .usage = "OUT [flags]",
      .flags = kListRows}},
    {"verify",
     CheckpointVerb::kVerify,
     1,
     {.name = "fmengine-checkpoint verify",
      .purpose = "Reads all of a checkpoint and compares it with its sums.",
      .usage = "PATH [flags]\n"
               "  PATH is a folder global_stepN, or an output directory: its newest.\n"
               "  Exit code 12 where something is damaged.",
      .flags = kVerifyRows}},
    {"prune",
     CheckpointVerb::kPrune,
     1,
     {.name = "fmengine-checkpoint prune",
      .purpose = "Deletes older checkpoints of an output directory that no run has.",
      .usage = "OUT --keep_last N [flags]\n"
               "  What a start would resume from, what is proven and what is damaged stays.",
      .flags = kPruneRows}},
    {"diff",
     CheckpointVerb::kDiff,
     2,
     {.name = "fmengine-checkpoint diff",
      .purpose = "Tells in which numbers two checkpoints or models differ.",
      .usage =
          "A B [flags]\n"
          "  Each is a checkpoint, an output directory (its newest), a Hugging Face folder or\n"
          "  a file of safetensors. Exit code 0: no difference, 1: some.",
      .flags = kDiffRows}},
};

std::string verbs_text() {
  std::vector<std::string> words;
  for (const VerbRow& row : kVerbs) words.emplace_back(row.word);
  return core::join(words, ", ");
}

const VerbRow& row_of(CheckpointVerb verb) {
  return *std::find_if(std::begin(kVerbs), std::end(kVerbs),
                       [&](const VerbRow& row) { return row.verb == verb; });
}

const VerbRow& row_named(const std::string& word) {
  const auto* const found = std::find_if(std::begin(kVerbs), std::end(kVerbs),
                                         [&](const VerbRow& row) { return word == row.word; });
  if (found != std::end(kVerbs)) return *found;
  std::vector<std::string> words;
  for (const VerbRow& row : kVerbs) words.emplace_back(row.word);
  const std::string near = core::nearest(word, words);
  FM_USER_CHECK(false, "fmengine checkpoint takes a verb: ", verbs_text(), "; ",
                near.empty() ? "see fmengine checkpoint --help" : "did you mean " + near + "?",
                " (", word, ")");
}

bool holds(std::span<const std::string> words, const char* word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

void read_flags(const FlagValues& flags, CheckpointCommand& command) {
  switch (command.verb) {
    case CheckpointVerb::kList: command.json = flags.flag("json"); return;
    case CheckpointVerb::kVerify:
      command.json = flags.flag("json");
      command.all = flags.flag("all");
      command.threads =
          flags.given("threads")
              ? static_cast<int>(flags.integer("threads", 1, machine::kMostThreads))
              : static_cast<int>(std::clamp(2 * std::thread::hardware_concurrency(), 4U, 8U));
      return;
    case CheckpointVerb::kPrune:
      FM_USER_CHECK(flags.given("keep_last"),
                    "how many checkpoints stay is required; give --keep_last N");
      command.rules.keep_last = flags.small("keep_last", 1);
      command.rules.keep_every = flags.integer("keep_every", 0);
      command.removes = flags.flag("yes");
      FM_USER_CHECK(!command.removes || !flags.flag("dry_run"),
                    "--yes deletes and --dry_run does not; leave one of them out");
      return;
    case CheckpointVerb::kDiff:
      command.json = flags.flag("json");
      command.atol = flags.number("atol", 0);
      command.most = flags.integer("most", 0);
      if (command.most == 0) command.most = std::numeric_limits<std::int64_t>::max();
      return;
  }
}

}  // namespace

CheckpointCommand parse_checkpoint_command(std::span<const std::string> words) {
  CheckpointCommand command;
  const std::string first = words.empty() ? "" : words[0];
  command.version = first == "--version";
  command.help = first == "--help" || first == "-h" || first == "help";
  command.any_verb = command.help || command.version;
  if (command.any_verb) return command;
  const VerbRow& row = row_named(first);
  command.verb = row.verb;
  const SplitWords split = split_words(words.subspan(1), row.program.flags);
  const std::vector<std::string> normal = normalise_argv(split.flagged, row.program.flags).words;
  command.help = holds(normal, "--help");
  command.version = holds(normal, "--version");
  if (command.help || command.version) return command;
  read_flags(FlagValues(row.program, normal), command);
  FM_USER_CHECK(split.plain.size() == row.paths, "fmengine checkpoint ", row.word, " takes ",
                row.paths == 1 ? "one path" : "two paths", "; see fmengine checkpoint ", row.word,
                " --help (", core::join(split.plain, " "), ")");
  command.paths = split.plain;
  return command;
}

std::string checkpoint_help_text(const CheckpointCommand& command) {
  if (!command.any_verb) return help_text(row_of(command.verb).program);
  std::string text = "Looks after the checkpoints of runs.\n\nUsage:\n";
  text += "  fmengine checkpoint VERB PATH [flags]\n\nVerbs:\n";
  for (const VerbRow& row : kVerbs) {
    text += core::concat("  ", row.word, std::string(10 - std::string_view(row.word).size(), ' '),
                         row.program.purpose, "\n");
  }
  return text + "\n`fmengine checkpoint VERB --help` has a verb's flags.\n";
}

}  // namespace fm::cli
