// What a program prints is its result.
#pragma once

#include <string_view>

namespace fm::cli {

// Where the process was started with a closed one, files that it opens would be taken for it: after
// this, printing fails in its place. First in main.
void hold_standard_files();

// All of `text`, at once. Throws MachineError (26) where standard output does not take it; a pipe
// whose reader has gone ends the process by SIGPIPE where that is not ignored.
void print(std::string_view text);
// With an end of line, where `text` has none.
void print_line(std::string_view text);

}  // namespace fm::cli
