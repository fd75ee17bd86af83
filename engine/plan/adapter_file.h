// The weights of a PEFT folder, and what they say of the base.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/safetensors_file.h"

namespace fm::engine {

// adapter_model.safetensors, else adapter_model.bin, as peft does.
checkpoint::TensorFile open_adapter(const std::string& folder);

// Whether a stored name is that of a whole embedding or head.
bool is_whole_vocabulary(const std::string& name);
// Rows of the embedding or the head that the folder holds whole; 0: it holds neither.
std::int64_t vocabulary_rows(const std::string& folder);

}  // namespace fm::engine
