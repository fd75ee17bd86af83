#include "cli/report_arguments.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "cli/argv.h"
#include "cli/flag_values.h"
#include "cli/value_types.h"

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

// Whether `word` is the value of the flag before it.
bool is_value(const std::string& word, const std::string& before) {
  if (!before.starts_with("--") || before.find('=') != before.npos) return false;
  const auto row = std::find_if(std::begin(kRows), std::end(kRows),
                                [&](const FlagRow& each) { return before.substr(2) == each.name; });
  return row != std::end(kRows) && (row->kind != FlagKind::kBool || parse_bool(word));
}

}  // namespace

ReportCommand parse_report_command(std::span<const std::string> words) {
  ReportCommand command;
  std::vector<std::string> flagged;
  for (std::size_t at = 0; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (word.starts_with("-") || (at > 0 && is_value(word, words[at - 1]))) {
      flagged.push_back(word);
      continue;
    }
    FM_USER_CHECK(command.run.empty(), "one folder of a run is required; name only one (",
                  command.run, ", ", word, ")");
    command.run = word;
  }
  const std::vector<std::string> normal = normalise_argv(flagged, kRows);
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
