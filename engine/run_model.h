// The model that the options name.
#pragma once

#include <filesystem>

#include "engine/options.h"
#include "model/llama.h"

namespace fm::engine {

struct RunModel {
  model::LlamaConfig config;
  model::Model model;
  std::filesystem::path weights_from;  // Hugging Face folder; empty: random weights
};

// Reads config.json of --init_ckpt or --model_config. Throws UserError (10, 11) when neither is
// given, both are, or the file does not hold a supported model; also when the folder's tokenizer is
// not ours and the data would be tokenised with ours.
RunModel open_run_model(const TrainOptions& options);

// Whether the training data are text, to be tokenised here. Throws UserError (10) when the name of
// the file does not say.
bool reads_text(const TrainOptions& options);

}  // namespace fm::engine
