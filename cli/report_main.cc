// fmengine-report: the folder of a run in, one HTML page out.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/ending.h"
#include "cli/report_arguments.h"
#include "core/check.h"
#include "report/metrics.h"
#include "report/page.h"
#include "report/summary.h"
#include "report/timeline.h"

namespace {

void write_page(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  FM_USER_CHECK(file.good(),
                "the page must have a place that can be written; choose one with --out FILE (",
                path, ": ", std::strerror(errno), ")");
  file << text << std::flush;
  FM_MACHINE_CHECK(file.good(), fm::core::ExitCode::kStorageFailed, path, ": ",
                   std::strerror(errno));
}

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

int run(const std::vector<std::string>& words) {
  const fm::cli::ReportCommand command = fm::cli::parse_report_command(words);
  if (command.help) return print(fm::cli::report_help_text()), 0;
  if (command.version) return print(fm::cli::version_text() + "\n"), 0;
  const std::filesystem::path folder = command.run;
  const fm::report::Metrics metrics = fm::report::read_metrics(folder / "metrics.jsonl");
  if (command.text) return print(fm::report::summary_text(metrics, command.run)), 0;
  std::optional<fm::report::Timeline> timeline;
  if (!command.trace.empty()) timeline = fm::report::read_timeline(command.trace);
  write_page(command.out, fm::report::page(metrics, timeline ? &*timeline : nullptr,
                                           {.run = command.run,
                                            .program = fm::cli::version_text(),
                                            .now = static_cast<double>(std::time(nullptr))}));
  print("report: " + command.out + "\n");
  return 0;
}

}  // namespace

int main(int count, char** words) {
  fm::cli::Ending ending("fmengine-report");
  return ending.run([&] { return run({words + 1, words + count}); });
}
