// fmengine-train's command line: words become one Command.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "engine/options.h"

namespace fm::cli {

enum class Action : std::uint8_t { kTrain, kPlan, kReport, kHelp, kVersion };

struct Command {
  Action action = Action::kTrain;
  engine::TrainOptions options;
  bool json = false;           // --plan --json
  int plan_ranks = 0;          // 0: the ranks that were started
  std::optional<int> threads;  // per rank
  // From the command line; they count only where the environment says nothing.
  std::optional<std::string> rank;
  std::optional<std::string> local_rank;
  std::optional<std::string> world_size;
};

// Words without the program's name. Reads the DeepSpeed configuration that they name. Throws
// UserError (10).
Command parse_command(std::span<const std::string> words);

std::string train_help_text();
std::string version_text();

}  // namespace fm::cli
