// fmengine-generate: texts in, what follows them out.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/ending.h"
#include "cli/generate_arguments.h"
#include "kernels/gemm/gemm.h"
#include "machine/cores.h"
#include "machine/stacks.h"

namespace {

void write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

std::optional<std::string> read_line(std::string_view cue) {
  if (::isatty(STDIN_FILENO) != 0) write(cue);
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

int run(const std::vector<std::string>& words) {
  const fm::cli::GenerateCommand command = fm::cli::parse_generate_command(words);
  if (command.help || command.version) {
    write(command.help ? fm::cli::generate_help_text() : fm::cli::version_text());
    write("\n");
    return 0;
  }
  fm::kernels::set_kernel_threads(fm::machine::take_cores({}, std::nullopt).threads);
  fm::machine::check_stacks(fm::machine::stacks_here());
  fm::engine::generate(command.options, {.write = write, .read_line = read_line});
  return 0;
}

}  // namespace

int main(int count, char** words) {
  fm::cli::Ending ending("fmengine-generate");
  return ending.run([&] { return run({words + 1, words + count}); });
}
