#include "cli/flags/tokenize_arguments.h"

#include <algorithm>
#include <vector>

#include "cli/flags/argv.h"
#include "cli/flags/flag_values.h"
#include "machine/cores.h"

namespace fm::cli {
namespace {

constexpr FlagRow kRows[] = {
    {"tokenizer", FlagKind::kText, "", "Flags",
     "folder with tokenizer.json, tokenizer.model, or vocab.json and merges.txt"},
    {"data_path", FlagKind::kList, "", "Flags",
     "JSONL files (.gz and .zst too), folders, patterns, in their order"},
    {"out", FlagKind::kText, "", "Flags",
     "the file to write, a new one; of megatron OUT.bin and OUT.idx"},
    {"data_format", FlagKind::kText, "tokens_i32", "Flags",
     "tokens_i32 (int32 ids, one end-of-text id behind each document) or megatron"},
    {"text_field", FlagKind::kText, "text", "Flags",
     "field of the text; given, it comes before chats"},
    {"chat_template", FlagKind::kText, "", "Flags", "Jinja file instead of the folder's template"},
    {"train_on_inputs", FlagKind::kBool, "false", "Flags",
     "train on prompts and all turns; else megatron's OUT.counted says which ids count"},
    {"skip_bad_lines", FlagKind::kInt, "0", "Flags",
     "leave out up to N lines that are no documents"},
    {"threads", FlagKind::kInt, "", "Flags", "else as many as there are cores"},
};

Program program() {
  return {.name = "fmengine-tokenize",
          .purpose = "Makes token ids of text, for fmengine-train's --data_path.",
          .usage = "--tokenizer FOLDER --data_path FILES --out PATH [flags]",
          .flags = kRows};
}

}  // namespace

TokenizeCommand parse_tokenize_command(std::span<const std::string> words) {
  TokenizeCommand command;
  const std::vector<std::string> normal = normalise_argv(words, kRows).words;
  command.help = std::find(normal.begin(), normal.end(), "--help") != normal.end();
  command.version = std::find(normal.begin(), normal.end(), "--version") != normal.end();
  if (command.help || command.version) return command;
  const FlagValues flags(program(), normal);
  for (const char* name : {"tokenizer", "data_path", "out"}) {
    FM_USER_CHECK(flags.given(name),
                  "a tokenizer, text and a name are required: fmengine-tokenize ",
                  "--tokenizer FOLDER --data_path FILES --out PATH (--", name, " is missing)");
  }
  command.tokenizer = flags.text("tokenizer");
  command.chat_template = flags.text("chat_template");
  command.text_field = flags.text("text_field");
  command.text_first = flags.given("text_field");
  command.train_on_inputs = flags.flag("train_on_inputs");
  if (flags.given("threads")) {
    command.threads = static_cast<int>(flags.integer("threads", 1, machine::kMostThreads));
  }
  command.options.paths = flags.list("data_path");
  command.options.out = flags.text("out");
  command.options.layout = flags.choice<prepare::TokenLayout>(
      "data_format", {{"tokens_i32", prepare::TokenLayout::kFlat},
                      {"tokens", prepare::TokenLayout::kFlat},
                      {"megatron", prepare::TokenLayout::kMegatron}});
  command.options.skip_bad_lines = flags.integer("skip_bad_lines", 0);
  return command;
}

std::string tokenize_help_text() { return help_text(program()); }

}  // namespace fm::cli
