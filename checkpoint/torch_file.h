// Files of torch.save (torch/serialization.py): a ZIP archive of one pickle, whose tensors name
// records of raw numbers beside it. Of them only a dictionary of names and tensors is read, which
// is what pytorch_model.bin and adapter_model.bin hold; nothing of the pickle is executed.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "checkpoint/safetensors.h"

namespace fm::checkpoint {

// As parse_safetensors, but several tensors may share bytes. Throws UserError (11) with
// `file_name` for a file of torch before 1.6, damage, other content, a tensor that is not
// contiguous, or a type of numbers that safetensors lacks.
SafetensorsHeader parse_torch_file(std::span<const std::byte> file, const std::string& file_name);

}  // namespace fm::checkpoint
