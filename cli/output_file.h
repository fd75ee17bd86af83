// A file that a program makes because a flag names it.
#pragma once

#include <string>

namespace fm::cli {

// What a file is called in messages, and the flag that names it.
struct OutputName {
  std::string what;  // "page"
  std::string flag;  // "--out"
};

// Throws UserError (10) where `path` cannot be opened, MachineError where writing fails.
void write_output(const OutputName& name, const std::string& path, const std::string& text);

}  // namespace fm::cli
