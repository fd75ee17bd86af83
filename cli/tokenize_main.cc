// fmengine-tokenize: text in, token ids out.
#include <csignal>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "cli/ending.h"
#include "cli/flags/arguments.h"
#include "cli/flags/program_arguments.h"
#include "cli/interruption.h"
#include "cli/outputs.h"
#include "machine/cores.h"
#include "text/prepare/extended_folder.h"
#include "text/prepare/text_recipe.h"

namespace {

std::string write(fm::cli::TokenizeCommand command) {
  const fm::comm::LaunchInfo alone;
  command.options.threads = fm::machine::take_cores(alone, command.threads).threads;
  command.options.say = [](const std::string& text) {
    std::fprintf(stderr, "fmengine-tokenize: %s\n", text.c_str());
  };
  const fm::prepare::Recipe recipe =
      fm::prepare::read_recipe(command.tokenizer, command.chat_template,
                               {.text_field = command.text_field,
                                .text_first = command.text_first,
                                .train_on_inputs = command.train_on_inputs,
                                .columns = command.options.rows.columns,
                                .now = std::time(nullptr),
                                .texts = fm::prepare::extended_folder(
                                    {command.tokenizer, command.chat_template}, command.extra)});
  return fm::prepare::write_tokens(command.options, recipe);
}

int run(const std::vector<std::string>& words, fm::cli::Interruption& interruption) {
  fm::cli::TokenizeCommand command = fm::cli::parse_tokenize_command(words);
  command.options.stop = interruption.question();
  fm::cli::print_line(command.help      ? fm::cli::tokenize_help_text()
                      : command.version ? fm::cli::version_text()
                                        : write(command));
  return 0;
}

}  // namespace

int main(int count, char** words) {
  fm::cli::hold_standard_files();
  std::signal(SIGXFSZ, SIG_IGN);  // past `ulimit -f` a write fails, and says so
  fm::cli::Ending ending("fmengine-tokenize");
  fm::cli::Interruption interruption;
  const int code = ending.run([&] { return run({words + 1, words + count}, interruption); });
  interruption.end_as_asked();
  return code;
}
