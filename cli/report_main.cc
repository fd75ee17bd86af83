// fmengine-report: the folders of runs in, one HTML page out.
#include <csignal>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/ending.h"
#include "cli/flags/arguments.h"
#include "cli/flags/program_arguments.h"
#include "cli/outputs.h"
#include "core/text.h"
#include "observe/report/comparison.h"
#include "observe/report/metrics.h"
#include "observe/report/page.h"
#include "observe/report/summary.h"
#include "observe/report/trace_step.h"

namespace {

fm::report::PageWords words_of(const fm::cli::ReportCommand& command) {
  return {.run = fm::core::join(command.runs, ", "),
          .program = fm::cli::version_text(),
          .now = static_cast<double>(std::time(nullptr))};
}

int compare(const fm::cli::ReportCommand& command) {
  std::vector<fm::report::NamedRun> runs;
  for (const std::string& name : command.runs) {
    const std::filesystem::path folder = name;
    runs.push_back({name, fm::report::read_metrics(folder / "metrics.jsonl")});
  }
  if (command.text) return fm::cli::print(fm::report::comparison_text(runs)), 0;
  fm::cli::write_output({"page", "--out"}, command.out,
                        fm::report::comparison_page(runs, words_of(command)));
  fm::cli::print("report: " + command.out + "\n");
  return 0;
}

int run(const std::vector<std::string>& words) {
  const fm::cli::ReportCommand command = fm::cli::parse_report_command(words);
  if (command.help) return fm::cli::print(fm::cli::report_help_text()), 0;
  if (command.version) return fm::cli::print(fm::cli::version_text() + "\n"), 0;
  if (command.runs.size() > 1) return compare(command);
  const std::filesystem::path folder = command.runs[0];
  const fm::report::Metrics metrics = fm::report::read_metrics(folder / "metrics.jsonl");
  if (command.text) return fm::cli::print(fm::report::summary_text(metrics, folder)), 0;
  std::optional<fm::report::TraceStep> trace;
  if (!command.trace.empty()) trace = fm::report::read_trace_step(command.trace);
  fm::cli::write_output({"page", "--out"}, command.out,
                        fm::report::page(metrics, trace ? &*trace : nullptr, words_of(command)));
  fm::cli::print("report: " + command.out + "\n");
  return 0;
}

}  // namespace

int main(int count, char** words) {
  fm::cli::hold_standard_files();
  std::signal(SIGXFSZ, SIG_IGN);  // past `ulimit -f` a write fails, and says so
  fm::cli::Ending ending("fmengine-report");
  return ending.run([&] { return run({words + 1, words + count}); });
}
