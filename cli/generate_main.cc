// fmengine-generate: a prompt in, its continuation out.
#include <cstdio>
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

int run(const std::vector<std::string>& words) {
  const fm::cli::GenerateCommand command = fm::cli::parse_generate_command(words);
  fm::kernels::set_kernel_threads(fm::machine::take_cores({}, std::nullopt).threads);
  if (!command.help && !command.version) fm::machine::check_stacks(fm::machine::stacks_here());
  const std::string text = command.help      ? fm::cli::generate_help_text()
                           : command.version ? fm::cli::version_text()
                                             : fm::engine::generate(command.options);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  fm::cli::Ending ending("fmengine-generate");
  return ending.run([&] { return run({words + 1, words + count}); });
}
