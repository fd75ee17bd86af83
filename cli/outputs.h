// Where a program writes: files that it was told to make, and standard output.
#pragma once

#include <string>
#include <string_view>

#include "core/files/output_file.h"

namespace fm::cli {

// A signal waits until a regular file is whole. Throws as core::check_output, and MachineError
// (26) where writing fails.
void write_output(const core::OutputName& name, const std::string& path, const std::string& text);

// What a program prints is its result.

// Where the process was started with a closed one, files that it opens would be taken for it: after
// this, printing fails in its place. First in main.
void hold_standard_files();

// All of `text`, at once. Throws MachineError (26) where standard output does not take it; a pipe
// whose reader has gone ends the process by SIGPIPE where that is not ignored.
void print(std::string_view text);
// With an end of line, where `text` has none.
void print_line(std::string_view text);

}  // namespace fm::cli
