#include "cli/flags/report_arguments.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "cli/flags/argv.h"
#include "cli/flags/flag_values.h"
#include "cli/flags/positionals.h"

namespace fm::cli {
namespace {

constexpr FlagRow kRows[] = {
    {"out", FlagKind::kText, "", "Flags", "file of the page; else OUT/report.html"},
    {"trace", FlagKind::kText, "", "Flags", "file of fmengine-train --trace, for a timeline"},
    {"text", FlagKind::kBool, "false", "Flags", "print a summary instead, and write no page"},
};

Program program() {
  return {.name = "fmengine-report",
          .purpose = "Makes one HTML page of a run from the metrics.jsonl in its folder OUT.",
          .usage = "OUT [flags]",
          .flags = kRows};
}

}  // namespace

ReportCommand parse_report_command(std::span<const std::string> words) {
  ReportCommand command;
  const SplitWords split = split_words(words, kRows);
  FM_USER_CHECK(split.plain.size() < 2, "one folder of a run is required; name only one (",
                core::join(split.plain, ", "), ")");
  if (!split.plain.empty()) command.run = split.plain[0];
  const std::vector<std::string> normal = normalise_argv(split.flagged, kRows).words;
  command.help = std::find(normal.begin(), normal.end(), "--help") != normal.end();
  command.version = std::find(normal.begin(), normal.end(), "--version") != normal.end();
  if (command.help || command.version) return command;
  const FlagValues flags(program(), normal);
  FM_USER_CHECK(!command.run.empty(),
                "the folder of a run is required; give what --output_dir was: fmengine-report OUT");
  command.out = flags.text("out");
  if (command.out.empty()) command.out = std::filesystem::path(command.run) / "report.html";
  command.trace = flags.text("trace");
  command.text = flags.flag("text");
  return command;
}

std::string report_help_text() { return help_text(program()); }

}  // namespace fm::cli
