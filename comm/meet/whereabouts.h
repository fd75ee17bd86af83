// Where the main thread of a rank is, for the threads and programs that watch it.
#pragma once

#include <cstdint>
#include <string>

namespace fm::comm {

struct Whereabouts {
  std::uint64_t moves = 0;       // grows with every instruction and collective
  bool waits_for_peers = false;  // inside a verb
  std::string text = {};         // step, instruction, tensor or verb
};

}  // namespace fm::comm
