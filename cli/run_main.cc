// fmengine-run: the ranks of this host.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/ending.h"
#include "cli/flags/arguments.h"
#include "cli/flags/launch_arguments.h"
#include "cli/outputs.h"
#include "core/check.h"

namespace {

// Of a launcher on another host: it orders by standard input, or by a file beside the job's.
int serve(const fm::cli::RunCommand& command) {
  const bool by_file = command.job_file != "-";
  const int fd = by_file ? open(command.job_file.c_str(), O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
  FM_MACHINE_CHECK(fd >= 0, fm::core::ExitCode::kRendezvousFailed,
                   "an agent reads its job in the launcher's working folder, which all hosts must "
                   "see; share it, or use --launcher ssh (",
                   command.job_file, ": ", std::strerror(errno), ")");
  const fm::launch::AgentJob job = fm::launch::read_job(fd, command.job.node);
  if (by_file) close(fd);
  return fm::launch::run_ranks(job, {.for_launcher = true,
                                     .control = STDIN_FILENO,
                                     .stop_file = by_file ? command.job_file + ".stop" : ""});
}

int run(const std::vector<std::string>& words) {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe");
  const fm::cli::RunCommand command = fm::cli::parse_run_command(
      words, fm::core::process_environment(), here.parent_path().string());
  if (command.help) return fm::cli::print(fm::cli::run_help_text()), 0;
  if (command.version) return fm::cli::print(fm::cli::version_text() + "\n"), 0;
  return command.agent ? serve(command) : fm::launch::run_ranks(command.job);
}

}  // namespace

int main(int count, char** words) {
  fm::cli::hold_standard_files();
  fm::cli::Ending ending("fmengine-run");
  return ending.run([&] { return run({words + 1, words + count}); });
}
