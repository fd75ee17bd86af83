// The model that the options name.
#pragma once

#include <filesystem>

#include "engine/options.h"
#include "model/opened_model.h"

namespace fm::engine {

// Reads config.json of --init_ckpt or --model_config. Throws UserError (10, 11) when neither is
// given, both are, or the file does not hold a supported model; also when the folder's tokenizer is
// not ours and the data would be tokenised with ours.
model::OpenedModel open_run_model(const TrainOptions& options);

// The Hugging Face folder that the weights come from; empty: they are random.
std::filesystem::path weights_folder(const TrainOptions& options);

// The folder (or file) of the tokenizer that makes ids of text: --tokenizer, else that of
// --init_ckpt; "": the built-in byte tokenizer does.
std::filesystem::path tokenizer_folder(const TrainOptions& options);

// The folder that has the files of that tokenizer; "" for the built-in one.
std::filesystem::path tokenizer_home(const TrainOptions& options);

model::ModelChoices choices_of(const TrainOptions& options, core::Share share = {});

// What one tensor-parallel rank has of the model that open_run_model returned. Throws UserError
// (10) where it cannot be cut into --model_parallel_size parts.
model::OpenedModel part_of(const model::OpenedModel& whole, const TrainOptions& options,
                           int tp_rank);

// Whether the training data are text, to be tokenised here. Throws UserError (10) when the name of
// the file does not say.
bool reads_text(const TrainOptions& options);
// The same of the evaluation data.
bool evaluates_text(const TrainOptions& options);

}  // namespace fm::engine
