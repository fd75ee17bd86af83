// fmengine-generate: texts in, what follows them out.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/ending.h"
#include "cli/flags/arguments.h"
#include "cli/flags/program_arguments.h"
#include "cli/outputs.h"
#include "cli/run_device.h"
#include "core/check.h"
#include "kernels/threads.h"
#include "machine/cores.h"
#include "machine/stacks.h"

namespace {

constexpr std::size_t kMostLine = 256'000'000;  // what has no end is no text

void note(std::string_view text) {
  const std::string line = "fmengine-generate: " + std::string(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::optional<std::string> read_line(std::string_view cue) {
  if (::isatty(STDIN_FILENO) != 0) fm::cli::print(cue);
  std::string line;
  std::streambuf& input = *std::cin.rdbuf();
  for (int byte = input.sbumpc(); byte != '\n'; byte = input.sbumpc()) {
    if (byte == std::char_traits<char>::eof()) {
      return line.empty() ? std::nullopt : std::optional(std::move(line));
    }
    FM_DATA_CHECK(line.size() < kMostLine, "a line of standard input may have at most ", kMostLine,
                  " bytes");
    line += static_cast<char>(byte);
  }
  return line;
}

// A token is some hundred short products. Threads that wait for each other in a busy loop for long,
// as OpenMP's do, lose a time slice at each where something else runs: 30 tokens/s instead of 1,200
// (5 M parameters, 2 threads, a third busy process). Threads that sleep at once must be woken at
// each: 450 instead of 2,200 on an idle machine. So they look some thousand times (libgomp's
// GOMP_SPINCOUNT), then sleep. OpenMP reads the variables when it is loaded; where the program
// cannot start again, it goes on.
void wait_shortly(char** words) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  ::setenv("OMP_WAIT_POLICY", "passive", 1);
  ::setenv("GOMP_SPINCOUNT", "2000", 0);
  ::execv("/proc/self/exe", words);
}

int run(const std::vector<std::string>& words) {
  const fm::cli::GenerateCommand command = fm::cli::parse_generate_command(words);
  if (command.help || command.version) {
    fm::cli::print_line(command.help ? fm::cli::generate_help_text() : fm::cli::version_text());
    return 0;
  }
  fm::kernels::set_kernel_threads(fm::machine::take_cores({}, std::nullopt).threads);
  fm::machine::check_stacks(fm::machine::stacks_here());
  const std::unique_ptr<fm::core::Device> device = fm::cli::open_device(command.device);
  fm::engine::generate(command.options,
                       {.write = fm::cli::print, .read_line = read_line, .note = note},
                       device.get());
  return 0;
}

}  // namespace

int main(int count, char** words) {
  wait_shortly(words);
  fm::cli::hold_standard_files();
  std::signal(SIGXFSZ, SIG_IGN);  // past `ulimit -f` a write fails, and says so
  fm::cli::Ending ending("fmengine-generate");
  return ending.run([&] { return run({words + 1, words + count}); });
}
