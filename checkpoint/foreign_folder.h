// What people take for a Hugging Face folder of safetensors.
#pragma once

#include <filesystem>
#include <string>

namespace fm::checkpoint {

// What the folder or file is, or the name of a model of Hugging Face's hub where nothing of that
// name is there, and what makes it one that can be read: "DIR is a PEFT adapter, ...; merge it
// ...". "" for a Hugging Face folder of safetensors, and for what nobody knows.
std::string foreign_folder(const std::filesystem::path& folder);

}  // namespace fm::checkpoint
