// The threads of a CUDA block on this CPU: fibers that run in turn, from barrier to barrier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace fm::emulated {

struct Index {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

// Which thread, and which block, runs first: what depends on it lacks a barrier.
enum class Order : std::uint8_t { kForward, kBackward, kByTurns };

// How blocks run from now on, of the caller's thread.
struct Rules {
  Order order = Order::kByTurns;
  // Leaves out this barrier of every thread of a block (0: its first __syncthreads), as if the
  // source lacked it; -1: none.
  int without_barrier = -1;
};
void set_rules(const Rules& rules);
// __syncthreads of a thread, at most, of all blocks since set_rules.
int barriers_seen();

struct Grid {
  Index blocks;
  Index threads;
  std::size_t shared = 0;  // bytes; poisoned for every block
};
// Runs `body` once for every thread of every block. Throws std::runtime_error where threads of a
// block wait at different barriers for ever, or a warp exchanges values without all its threads.
void run_grid(const Grid& grid, const std::function<void()>& body);

// For a thread that runs.
Index thread_index();
Index block_index();
Index block_shape();
Index grid_shape();
void* shared_bytes();
void sync_threads();
void sync_warp();
// `bytes` (at most 64) of every thread of the warp: others' are read by lane until the warp's next
// exchange but one.
void put_mail(const void* value, std::size_t bytes);
const void* mail_of(unsigned lane);
unsigned lane();
// cp.async: the bytes arrive when they are waited for, no sooner.
void copy_later(void* to, const void* from, std::size_t bytes);
void commit_copies();
void wait_copies(int pending);

}  // namespace fm::emulated
