// How its user sees and calls the programs.
#pragma once

#include <functional>
#include <string>

#include "comm/meet/world.h"

namespace fm::cli {

// Of the terminal that a descriptor is; 0: it is none, or one without a size.
int columns_of(int fd);

struct Terminal {
  // stdout is one; under mpirun, whose ranks have one of its making, mpirun's own stdout is.
  bool shown = false;
  // Its columns now: of stdout, of mpirun's stdout, of stderr, else the variable COLUMNS, else 80.
  std::function<int()> columns = {};
};
Terminal terminal_of(const comm::LaunchInfo& launch);

// What stands before the name of another program of ours so that a shell finds it: "" where this
// program's folder is in PATH, else that folder, as it is seen from the working folder.
std::string programs_prefix();

}  // namespace fm::cli
