// What the summary of a run says of what it left, and of what can be done with it.
#pragma once

#include <string>
#include <vector>

#include "engine/options.h"
#include "engine/shown/run_context.h"
#include "model/opened_model.h"

namespace fm::engine {

// "output/hf, bf16 as in HF_FOLDER; output/adapter for peft"
std::string exported_words(const TrainOptions& options, const model::ModelFacts& facts);

// Commands that can be pasted into the shell that started the run.
std::vector<std::string> next_commands(const TrainOptions& options, const RunContext& context);

// Whether the training data begin with chats.
bool begins_with_chat(const TrainOptions& options);

}  // namespace fm::engine
