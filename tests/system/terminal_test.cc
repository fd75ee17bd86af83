// What a run prints into a terminal, at two widths.
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>

#include "core/text.h"
#include "tests/system/small_job.h"
#include "tests/system/system_case.h"

namespace fm::system {
namespace {

struct Shown {
  int code = -1;
  std::string text;
};

// The program in a terminal of so many columns, in `folder`.
Shown run_in_terminal(const std::vector<std::string>& words, int columns,
                      const std::filesystem::path& folder) {
  winsize size{};
  size.ws_row = 24;
  size.ws_col = static_cast<unsigned short>(columns);
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    if (chdir(folder.c_str()) == 0) execv(arguments[0], arguments.data());
    _exit(127);
  }
  Shown shown;
  char piece[4096];
  for (ssize_t got = 0;
       (got = read(terminal, piece, sizeof piece)) > 0 || (got < 0 && errno == EINTR);) {
    if (got > 0) shown.text.append(piece, static_cast<std::size_t>(got));
  }
  close(terminal);
  int status = 0;
  waitpid(child, &status, 0);
  shown.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return shown;
}

// Without what moves the cursor and colours.
std::string without_codes(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\033') {
      out += text[at];
      continue;
    }
    while (at < text.size() && std::isalpha(static_cast<unsigned char>(text[at])) == 0) ++at;
  }
  return out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::string one = without_codes(text);
  std::ranges::replace(one, '\r', '\n');
  return core::split(one, '\n');
}

using TerminalBar = SystemCase;
class Terminal : public SystemCase, public testing::WithParamInterface<int> {};

TEST_P(Terminal, NoLineIsWiderThanTheWindow) {
  const int columns = GetParam();
  const std::vector<std::string> words = words_of({.config = small_config(folder(), 2),
                                                   .model = small_model(folder()),
                                                   .data = small_tokens(folder(), 40),
                                                   .output = "o",
                                                   .steps = 21,
                                                   .more = {}});
  const Shown shown = run_in_terminal(words, columns, folder());
  EXPECT_EQ(shown.code, 0) << shown.text;
  EXPECT_NE(shown.text.find("\n  batch "), std::string::npos) << shown.text;
  EXPECT_NE(shown.text.find("epoch 2.00  loss "), std::string::npos) << shown.text;
  std::size_t widest = 0;
  for (const std::string& line : lines_of(shown.text)) {
    if (line.find("fmengine-") != std::string::npos) continue;  // to be pasted
    EXPECT_LE(std::ssize(line), columns) << line;
    widest = std::max(widest, line.size());
  }
  EXPECT_GT(static_cast<int>(widest), columns - 20);  // and the window is used
}

INSTANTIATE_TEST_SUITE_P(Widths, Terminal, testing::Values(80, 120),
                         [](const auto& width) { return "Of" + std::to_string(width.param); });

// The bar of a step stands again below a line that is printed above it.
TEST_F(TerminalBar, ALineAboveTheBarLeavesIt) {
  std::vector<std::string> words = words_of({.config = small_config(folder(), 0),
                                             .model = small_model(folder()),
                                             .data = small_tokens(folder(), 40),
                                             .output = "o",
                                             .steps = 4,
                                             .save_steps = 2,
                                             .more = {"--save_async", "false"}});
  const std::string text = without_codes(run_in_terminal(words, 100, folder()).text);
  const std::size_t saved = text.find("saved o/global_step2");
  ASSERT_NE(saved, std::string::npos) << text;
  const std::size_t bar = text.find("2/4", saved);
  EXPECT_LT(bar, text.find("3/4", saved)) << text;
}

}  // namespace
}  // namespace fm::system
