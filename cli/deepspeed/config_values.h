// --print_config: every value of the DeepSpeed configuration that a run has, and where it is from.
#pragma once

#include <string>
#include <vector>

#include "cli/deepspeed/ds_check.h"
#include "engine/options.h"

namespace fm::cli {

struct ConfigValue {
  std::string path;   // "optimizer.params.lr"
  std::string value;  // as JSON
  std::string from;   // "llama.json:12", "--learning_rate", "Trainer's default", "default"
};

// Keys that are honoured, with their defaults where the file has none, and whatever else the file
// has. `root`: after fill_from_trainer.
std::vector<ConfigValue> config_values(const JsonTree& root, const std::string& name,
                                       const Findings& findings);

// What only ranks and model decide: the batch triad for `dp_size` data ranks, and the Trainer's
// "auto" sizes of buckets, which follow from the hidden size.
void complete(std::vector<ConfigValue>& values, const engine::TrainOptions& options, int dp_size,
              std::int64_t hidden);

// Aligned columns, or one JSON object {path: {"value": ..., "from": ...}}.
std::string text_of(const std::vector<ConfigValue>& values);
std::string json_of(const std::vector<ConfigValue>& values);

}  // namespace fm::cli
