// fmengine-export: a checkpoint in, a Hugging Face folder out.
#include <csignal>
#include <string>
#include <vector>

#include "cli/ending.h"
#include "cli/flags/arguments.h"
#include "cli/flags/program_arguments.h"
#include "cli/interruption.h"
#include "cli/outputs.h"

namespace {

int run(const std::vector<std::string>& words, fm::cli::Interruption& interruption) {
  fm::cli::ExportCommand command = fm::cli::parse_export_command(words);
  command.options.stop = interruption.question();
  fm::cli::print_line(command.help      ? fm::cli::export_help_text()
                      : command.version ? fm::cli::version_text()
                                        : fm::engine::export_checkpoint(command.options));
  return 0;
}

}  // namespace

int main(int count, char** words) {
  fm::cli::hold_standard_files();
  std::signal(SIGXFSZ, SIG_IGN);  // past `ulimit -f` a write fails, and says so
  fm::cli::Ending ending("fmengine-export");
  fm::cli::Interruption interruption;
  const int code = ending.run([&] { return run({words + 1, words + count}, interruption); });
  interruption.end_as_asked();
  return code;
}
