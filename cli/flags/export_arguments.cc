#include "cli/flags/export_arguments.h"

#include <algorithm>
#include <vector>

#include "cli/flags/argv.h"
#include "cli/flags/flag_values.h"
#include "cli/flags/positionals.h"

namespace fm::cli {
namespace {

constexpr FlagRow kRows[] = {
    {"dtype", FlagKind::kText, "fp32", "Flags",
     "of the weights: fp32, bf16, fp16, or as_init (as config.json or the first weights say)"},
    {"model_config", FlagKind::kText, "", "Flags", "config.json, for a checkpoint that keeps none"},
};

Program program() {
  return {.name = "fmengine-export",
          .purpose = "Makes a Hugging Face folder OUT of the weights in a CHECKPOINT.",
          .usage =
              "CHECKPOINT OUT [flags]\n"
              "  CHECKPOINT is a folder global_stepN, or an output directory: its newest.\n"
              "  OUT must be new, empty or an older export.",
          .flags = kRows};
}

}  // namespace

ExportCommand parse_export_command(std::span<const std::string> words) {
  ExportCommand command;
  const SplitWords split = split_words(words, kRows);
  const std::vector<std::string> normal = normalise_argv(split.flagged, kRows).words;
  command.help = std::find(normal.begin(), normal.end(), "--help") != normal.end();
  command.version = std::find(normal.begin(), normal.end(), "--version") != normal.end();
  if (command.help || command.version) return command;
  const FlagValues flags(program(), normal);
  FM_USER_CHECK(split.plain.size() == 2,
                "a checkpoint and a folder to write are required: fmengine-export CHECKPOINT OUT (",
                core::join(split.plain, " "), ")");
  command.options = {.checkpoint = split.plain[0],
                     .out = split.plain[1],
                     .dtype = flags.text("dtype"),
                     .model_config = flags.text("model_config")};
  return command;
}

std::string export_help_text() { return help_text(program()); }

}  // namespace fm::cli
