// fmengine: runs the program beside it that its first word names.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/ending.h"
#include "cli/flags/arguments.h"
#include "cli/outputs.h"
#include "cli/subcommand.h"
#include "core/check.h"

namespace {

// `words` ends in a null pointer, as main has it. Returns only where no program took the process.
int run(int count, char** words) {
  const std::string word = count > 1 ? words[1] : "";
  if (word == "--help" || word == "-h" || word == "help") {
    return fm::cli::print(fm::cli::dispatch_help_text()), 0;
  }
  if (word == "--version") return fm::cli::print(fm::cli::version_text() + "\n"), 0;
  if (word == "explain") {
    const std::vector<std::string> rest(words + 2, words + count);
    return fm::cli::print(fm::cli::explain_text(rest)), 0;
  }
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe");
  const std::string path = here.parent_path() / fm::cli::program_named(word);
  std::string name = path;
  words[1] = name.data();
  execv(path.c_str(), words + 1);
  FM_MACHINE_CHECK(
      false, fm::core::ExitCode::kOurFault,
      "the programs of fmengine must lie in one folder; build or install all of them (", path, ": ",
      std::strerror(errno), ")");
}

}  // namespace

int main(int count, char** words) {
  fm::cli::hold_standard_files();
  fm::cli::Ending ending("fmengine");
  return ending.run([&] { return run(count, words); });
}
