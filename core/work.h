// What a call computes with: memory to work in, and threads. The queue of a device will be its
// third member: whoever multiplies, clears or copies tensors already takes a Work.
//
// Thread:   one thread; a call may use `threads` of its own.
// Lifetime: as the arena's.
#pragma once

#include "core/arena.h"

namespace fm::core {

struct Work {
  Arena arena;
  int threads = 1;
};

}  // namespace fm::core
