// What a run's banner and `--plan` say of the model's folder, because no number shows it soon.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/options.h"
#include "model/opened_model.h"

namespace fm::engine {

std::vector<std::string> folder_notes(const TrainOptions& options, const model::ModelFacts& facts);

// "": the tokenizer makes the ids that the folder's own makes, or one of them is not there.
std::string note_of_other_tokenizer(const std::string& tokenizer,
                                    const std::filesystem::path& model_folder);
// "": config.json has no key that nobody knows.
std::string note_of_unknown_keys(const model::ModelFacts& facts);

}  // namespace fm::engine
