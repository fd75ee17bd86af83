// Whether an open file is still the one that its name leads to.
#pragma once

#include <filesystem>

namespace fm::core {

// False: the file was deleted, renamed or replaced since it was opened, or a folder above it was.
bool leads_to(const std::filesystem::path& path, int fd);

}  // namespace fm::core
