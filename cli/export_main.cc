// fmengine-export: a checkpoint in, a Hugging Face folder out.
#include <cstdio>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/ending.h"
#include "cli/export_arguments.h"

namespace {

int run(const std::vector<std::string>& words) {
  const fm::cli::ExportCommand command = fm::cli::parse_export_command(words);
  const std::string text = command.help      ? fm::cli::export_help_text()
                           : command.version ? fm::cli::version_text()
                                             : fm::engine::export_checkpoint(command.options);
  std::printf("%s\n", text.c_str());
  return 0;
}

}  // namespace

int main(int count, char** words) {
  fm::cli::Ending ending("fmengine-export");
  return ending.run([&] { return run({words + 1, words + count}); });
}
