// Adapters of a run as a PEFT folder, in and out, and merged into the weights beside them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/safetensors_file.h"
#include "checkpoint/tensor_files.h"
#include "core/tensor_slice.h"
#include "engine/options.h"
#include "engine/plan/adapter_file.h"
#include "engine/step/rank_state.h"
#include "model/opened_model.h"

namespace fm::engine {

struct ExportTarget;  // engine/state/persistence.h

// The name of a trained parameter in that file.
std::string stored_name(const std::string& name);
// What that file holds of a model with adapters: names as in it, and of a matrix of which some rows
// are trained these rows alone.
std::vector<checkpoint::TensorSpec> stored_specs(const LoraOptions& lora,
                                                 const model::Model& model);
// Of the part of a trained parameter what is in the file; empty where that is none of it.
std::vector<core::TensorSlice> stored_slices(const LoraOptions& lora, core::TensorSlice slice);
// Throws UserError (11) for a tensor that has no place in `model`, which has adapters.
void check_adapter_names(const LoraOptions& lora, const model::Model& model,
                         const checkpoint::TensorFile& file);

// Collective. What is trained begins as in the PEFT folder of the options, or adapters as peft
// makes them; parameters of --modules_to_save keep what they have then.
void fill_adapters(const TrainOptions& options, const model::OpenedModel& opened, RankState& state);

// Collective. The owned parameters of the model without adapters: W + scale B A. The slices hold
// what they need of others.
std::vector<core::TensorSlice> merged_slices(const LoraOptions& lora,
                                             const model::ModelFacts& facts, RankState& state);

// output_dir/adapter
std::filesystem::path adapter_folder(const TrainOptions& options);
// Collective. Writes a folder for peft: adapter_config.json, adapter_model.safetensors and, as peft
// and TRL do, the tokenizer's files, chat template included.
void export_adapter(const TrainOptions& options, const model::ModelFacts& facts, RankState& state,
                    const ExportTarget& target);

}  // namespace fm::engine
