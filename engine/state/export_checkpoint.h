// A Hugging Face folder of a checkpoint, by one process and without the run's options.
#pragma once

#include <functional>
#include <string>

namespace fm::engine {

struct ExportOptions {
  std::string checkpoint = {};  // its folder, or an output directory
  std::string out = {};
  // fp32, bf16, fp16, or as_init: what the config.json of the run's model says, or else the type of
  // the weights that the run began with
  std::string dtype = "fp32";
  // config.json for checkpoints that hold none (of builds before 0.1.0's last)
  std::string model_config = {};
  std::function<bool()> stop = {};  // whether the work shall end; then nothing is left
};

// Returns a line for a person to read. Throws UserError (10) for a wrong dtype or a missing
// config.json, MachineError (12) for a folder without a whole checkpoint, (26) where the folder
// cannot be written, or a weight does not fit into fp16, (75) where it was stopped.
std::string export_checkpoint(const ExportOptions& options);

}  // namespace fm::engine
