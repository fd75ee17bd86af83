// The resources of a call: memory to work in, threads, and where it runs. Every kernel takes a Work
// first.
//
// Thread:   one thread; a call may use `threads` of its own.
// Lifetime: as the arena's and the queue's.
#pragma once

#include "core/arena.h"

namespace fm::core {

class Queue;

struct Work {
  Arena arena;
  int threads = 1;
  Queue* queue = nullptr;  // null: this CPU, before the call returns
};

}  // namespace fm::core
