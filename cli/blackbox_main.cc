// fmengine-blackbox: the black boxes of a run in, what every rank did last out.
#include <string>
#include <utility>
#include <vector>

#include "cli/ending.h"
#include "cli/flags/arguments.h"
#include "cli/flags/program_arguments.h"
#include "cli/outputs.h"
#include "observe/blackbox/crash_report.h"

namespace {

int run(const std::vector<std::string>& words) {
  const fm::cli::BlackboxCommand command = fm::cli::parse_blackbox_command(words);
  if (command.help) return fm::cli::print(fm::cli::blackbox_help_text()), 0;
  if (command.version) return fm::cli::print(fm::cli::version_text() + "\n"), 0;
  fm::blackbox::RingFolder folder = fm::blackbox::read_rings(command.folder, command.before);
  std::vector<fm::blackbox::ProcessLife> lives;
  for (const fm::blackbox::RingFile& ring : folder.rings) {
    lives.push_back(fm::blackbox::life_of(ring));
  }
  const auto report = fm::blackbox::crash_report(std::move(folder), std::move(lives));
  fm::cli::print(command.json ? fm::blackbox::report_json(report, command.last)
                              : fm::blackbox::report_text(report, command.last));
  return 0;
}

}  // namespace

int main(int count, char** words) {
  fm::cli::hold_standard_files();
  fm::cli::Ending ending("fmengine-blackbox");
  return ending.run([&] { return run({words + 1, words + count}); });
}
