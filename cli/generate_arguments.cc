#include "cli/generate_arguments.h"

#include <algorithm>

#include "cli/argv.h"
#include "cli/flag_values.h"

namespace fm::cli {
namespace {

constexpr auto kInt = FlagKind::kInt;
constexpr auto kText = FlagKind::kText;

constexpr FlagRow kRows[] = {
    {"ckpt", kText, "", "Flags", "Hugging Face folder, as fmengine-train writes it"},
    {"prompt", kText, "", "Flags", "text to continue; empty: the start of a document"},
    {"max_new_tokens", kInt, "200", "Flags", "bytes to add"},
    {"temperature", kText, "0", "Flags", "0: always the likeliest; 1: as the model says"},
    {"top_k", kInt, "0", "Flags", "choose among the k likeliest; 0: all"},
    {"seed", kInt, "3407", "Flags", "of the sampling"},
};

Program program() {
  return {.name = "fmengine-generate",
          .purpose = "Continues a text with a trained model.",
          .usage = "--ckpt DIR --prompt TEXT [flags]",
          .flags = kRows};
}

}  // namespace

GenerateCommand parse_generate_command(std::span<const std::string> words) {
  const std::vector<std::string> normal = normalise_argv(words, kRows);
  GenerateCommand command;
  command.help = std::find(normal.begin(), normal.end(), "--help") != normal.end();
  command.version = std::find(normal.begin(), normal.end(), "--version") != normal.end();
  if (command.help || command.version) return command;
  const FlagValues flags(program(), normal);
  command.options = {.ckpt = flags.text("ckpt"),
                     .prompt = flags.text("prompt"),
                     .max_new_tokens = flags.integer("max_new_tokens", 0),
                     .temperature = flags.number("temperature", 0),
                     .top_k = flags.integer("top_k", 0),
                     .seed = static_cast<std::uint64_t>(flags.integer("seed", 0))};
  FM_USER_CHECK(!command.options.ckpt.empty(), "a model is required; give --ckpt DIR");
  return command;
}

std::string generate_help_text() { return help_text(program()); }

}  // namespace fm::cli
