#include "cli/subcommand.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <vector>

#include "core/check.h"
#include "core/exit_codes.h"
#include "core/text.h"

namespace fm::cli {
namespace {

struct ProgramRow {
  const char* word;
  const char* purpose;
};

constexpr ProgramRow kPrograms[] = {
    {"train", "train a language model on one rank or many"},
    {"generate", "continue a text with a trained model"},
    {"export", "make a Hugging Face folder of a checkpoint"},
    {"checkpoint", "list, verify, prune and compare checkpoints"},
    {"tokenize", "make token ids of text, ahead of a run"},
    {"report", "make one HTML page of a run"},
    {"explain", "tell what an exit code means, and whether to start again"},
    {"blackbox", "tell what every rank did last, after a crash or while a run hangs"},
    {"run", "start the ranks of one host"},
    {"launch", "start ranks on the hosts of a hostfile"},
};

// By its letters, else by its first two: "gen", "trian".
std::string meant_by(const std::string& word, const std::vector<std::string>& words) {
  std::string near = core::nearest(word, words);
  if (!near.empty() || word.size() < 2) return near;
  const auto alike = std::find_if(words.begin(), words.end(), [&](const std::string& each) {
    return each.starts_with(word.substr(0, 2));
  });
  return alike == words.end() ? "" : *alike;
}

}  // namespace

bool is_program(const std::string& word) {
  return std::ranges::any_of(kPrograms, [&](const ProgramRow& row) { return word == row.word; });
}

std::string program_named(const std::string& word) {
  std::vector<std::string> words;
  for (const ProgramRow& row : kPrograms) words.emplace_back(row.word);
  if (std::find(words.begin(), words.end(), word) != words.end()) return "fmengine-" + word;
  const std::string meant = meant_by(word, words);
  FM_USER_CHECK(false, "a command is required: ", core::join(words, ", "), "; ",
                meant.empty() ? "see fmengine --help" : "did you mean " + meant + "?", " (", word,
                ")");
}

std::string dispatch_help_text() {
  std::string text = "Usage:\n  fmengine COMMAND [flags]\n\nCommands:\n";
  for (const ProgramRow& row : kPrograms) {
    char line[128];
    std::snprintf(line, sizeof(line), "  %-10s %s\n", row.word, row.purpose);
    text += line;
  }
  return text +
         "\n`fmengine COMMAND --help` has a command's flags; it runs fmengine-COMMAND, "
         "which lies beside fmengine. `fmengine explain [CODE]` is its own.\n";
}

std::string explain_text(std::span<const std::string> words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    return "Usage:\n  fmengine explain CODE\n\nThe first line is permanent or try-again.\n\n" +
           core::exit_code_table();
  }
  const std::string& word = words[0];
  int code = 0;
  const char* const end = word.data() + word.size();
  const auto parsed = std::from_chars(word.data(), end, code);
  FM_USER_CHECK(words.size() == 1 && parsed.ec == std::errc() && parsed.ptr == end,
                "fmengine explain takes one exit code, a whole number; write it, or nothing for "
                "the whole table (",
                core::join(words, " "), ")");
  return core::explained(code);
}

}  // namespace fm::cli
