// Keys of config.json that transformers 5 knows, by model_type. A key that neither transformers nor
// we know is often a feature of another architecture.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/families/config_reader.h"

namespace fm::model {

// False also for a model_type that is not in the table.
bool is_known_key(std::string_view model_type, std::string_view key);

// The keys of the file that are set, that were not read, and that are not known for its model_type:
// "embedding_multiplier (12.0)".
std::vector<std::string> unknown_keys(const ConfigReader& file);

}  // namespace fm::model
