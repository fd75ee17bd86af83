// fmengine-launch: ranks on the hosts of a hostfile.
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cli/ending.h"
#include "cli/flags/arguments.h"
#include "cli/flags/launch_arguments.h"
#include "cli/outputs.h"

namespace {

int run(const std::vector<std::string>& words) {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe");
  std::vector<std::string> variables;
  for (char** at = environ; *at != nullptr; ++at) variables.emplace_back(*at);
  const fm::cli::LaunchCommand command =
      fm::cli::parse_launch_command(words, variables, here.parent_path().string());
  if (command.help) return fm::cli::print(fm::cli::launch_help_text()), 0;
  if (command.version) return fm::cli::print(fm::cli::version_text() + "\n"), 0;
  if (command.print) return fm::cli::print(fm::launch::printed(command.plan)), 0;
  if (command.no_ssh) return fm::launch::run_ranks(command.plan.job);
  return fm::launch::launch_on(command.plan, command.restarts);
}

}  // namespace

int main(int count, char** words) {
  fm::cli::hold_standard_files();
  fm::cli::Ending ending("fmengine-launch");
  return ending.run([&] { return run({words + 1, words + count}); });
}
