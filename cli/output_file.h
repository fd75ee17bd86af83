// A file that a program makes because a flag names it.
#pragma once

#include <string>

#include "core/files/output_file.h"

namespace fm::cli {

// A signal waits until a regular file is whole. Throws as core::check_output, and MachineError
// (26) where writing fails.
void write_output(const core::OutputName& name, const std::string& path, const std::string& text);

}  // namespace fm::cli
