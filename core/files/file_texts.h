// Files of a folder that are read with another text than they have on the disk.
#pragma once

#include <map>
#include <string>

namespace fm::core {

// By the name in the folder.
using FileTexts = std::map<std::string, std::string>;

}  // namespace fm::core
