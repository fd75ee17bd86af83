// The resources of a call: memory to work in, and threads. Products, attention, clears and copies
// take a Work; the queue of a device would be its third member.
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
