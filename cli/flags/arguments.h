// fmengine-train's command line: words become one Command.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "cli/deepspeed/config_values.h"
#include "engine/drive_rate.h"
#include "engine/options.h"

namespace fm::cli {

enum class Action : std::uint8_t { kTrain, kPlan, kPrintConfig, kReport, kWhere, kHelp, kVersion };

struct Command {
  Action action = Action::kTrain;
  engine::TrainOptions options;
  bool json = false;                           // with --plan, --print_config
  std::string svg;                             // with --plan: file of the picture, or ""
  std::vector<ConfigValue> config;             // what --print_config shows
  int micros = 0;                              // of a plan without a model; 0: there is one
  std::string csv, csv_messages;               // files for the schedule of a plan; "": none
  int plan_ranks = 0;                          // 0: the ranks that were started
  std::optional<core::Bytes> host_memory;      // of each host of a plan; absent: this one\'s
  std::optional<core::Bytes> device_memory;    // of each rank's GPU in a plan
  std::string device_card;                     // the same: its name, or a part of it
  int host_cores = 0;                          // the same; 0: nothing is said of the time
  std::optional<engine::DriveRate> nvme_rate;  // of the drives of each host of a plan
  double nvme_endurance = 0.0;                 // the same: bytes in their life; 0: not known
  std::optional<int> threads;                  // per rank
  bool counts_epochs = false;  // lengths are in epochs: they are known with their steps only
  // From the command line; they count only where the environment says nothing.
  std::optional<std::string> rank;
  std::optional<std::string> local_rank;
  std::optional<std::string> world_size;
};

// Words without the program's name. Reads the DeepSpeed configuration that they name.
// `steps_of_epoch`: of the data, once they are counted; without them a Command that counts_epochs
// has some length. Throws UserError (10).
Command parse_command(std::span<const std::string> words,
                      std::optional<std::int64_t> steps_of_epoch = std::nullopt);

std::string train_help_text();
std::string version_text();

}  // namespace fm::cli
