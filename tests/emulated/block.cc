#include "tests/emulated/block.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

namespace fm::emulated {
namespace {

constexpr std::size_t kStack = 256 * 1024;
constexpr unsigned kWarp = 32;
constexpr std::size_t kMail = 64;
constexpr int kPoison = 0xFF;  // NaN in every type

enum class State : std::uint8_t { kRuns, kAtWarp, kAtBlock, kDone };

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
  int group;
};

struct Fiber {
  void* jump[5];
  ucontext_t context;
  void* stack = nullptr;
  bool started = false;
  State state = State::kDone;
  int barriers = 0;
  int group = 0;  // of copies
  std::vector<Copy> copies;
  unsigned parity = 0;
  alignas(16) unsigned char mail[2][kMail];
};

class FreeMemory {
 public:
  void operator()(void* data) const { ::operator delete (data, std::align_val_t{16}); }
};

struct Block {
  Grid grid;
  Index at{0, 0, 0};
  const std::function<void()>* body = nullptr;
  std::unique_ptr<void, FreeMemory> shared;
  std::vector<std::unique_ptr<Fiber>> fibers;
  unsigned count = 0;
  unsigned now = 0;
  bool backward = false;
  void* home[5];
  ucontext_t home_context;

  ~Block() {
    for (const auto& fiber : fibers) munmap(fiber->stack, kStack);
  }
};

thread_local Rules rules_now;
thread_local int most_barriers = 0;
thread_local std::unique_ptr<Block> block;

Fiber& running() { return *block->fibers[block->now]; }

// Switches by GCC's own setjmp, which saves three words and asks the system for nothing. The two
// functions stay apart: a jump within one function is not allowed.
#define FM_SWITCH [[gnu::noinline, gnu::no_sanitize("address", "undefined")]]

FM_SWITCH void jump_home() { __builtin_longjmp(block->home, 1); }
FM_SWITCH void jump_to(Fiber& fiber) { __builtin_longjmp(fiber.jump, 1); }

FM_SWITCH void leave() {
  if (__builtin_setjmp(running().jump) == 0) jump_home();
}

void fiber_main() {
  for (;;) {
    (*block->body)();
    wait_copies(0);
    running().state = State::kDone;
    leave();
  }
}

FM_SWITCH void resume(Fiber& fiber) {
  if (__builtin_setjmp(block->home) == 0) {
    if (fiber.started) jump_to(fiber);
    fiber.started = true;
    getcontext(&fiber.context);
    fiber.context.uc_stack = {fiber.stack, 0, kStack};
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, fiber_main, 0);
    swapcontext(&block->home_context, &fiber.context);
  }
}

void wait_in(State state) {
  running().state = state;
  leave();
}

// Calls run(i) for 0 .. count - 1 or the other way round.
template <class Run>
void in_order(unsigned count, bool backward, const Run& run) {
  for (unsigned i = 0; i < count; ++i) run(backward ? count - 1 - i : i);
}

void flip_order() {
  if (rules_now.order == Order::kByTurns) block->backward = !block->backward;
}

// Until every thread of the warp is done or waits for the block.
void run_warp(unsigned first) {
  const unsigned size = std::min(kWarp, block->count - first);
  for (;;) {
    in_order(size, block->backward, [&](unsigned i) {
      block->now = first + i;
      if (running().state == State::kRuns) resume(running());
    });
    unsigned waits = 0;
    for (unsigned i = 0; i < size; ++i) {
      if (block->fibers[first + i]->state == State::kAtWarp) ++waits;
    }
    if (waits == 0) return;
    if (waits != size) throw std::runtime_error("a warp exchanges values without all its threads");
    for (unsigned i = 0; i < size; ++i) block->fibers[first + i]->state = State::kRuns;
    flip_order();
  }
}

void run_block() {
  std::memset(block->shared.get(), kPoison, block->grid.shared);
  for (unsigned i = 0; i < block->count; ++i) {
    Fiber& fiber = *block->fibers[i];
    fiber.state = State::kRuns;
    fiber.barriers = 0;
    fiber.group = 0;
    fiber.parity = 0;
  }
  const unsigned warps = (block->count + kWarp - 1) / kWarp;
  for (;;) {
    in_order(warps, block->backward, [&](unsigned warp) { run_warp(warp * kWarp); });
    unsigned waits = 0;
    for (unsigned i = 0; i < block->count; ++i) {
      if (block->fibers[i]->state == State::kAtBlock) ++waits;
    }
    if (waits == 0) break;
    if (waits != block->count) {
      throw std::runtime_error("threads of a block end while others wait at a barrier");
    }
    for (unsigned i = 0; i < block->count; ++i) block->fibers[i]->state = State::kRuns;
    flip_order();
  }
  for (unsigned i = 0; i < block->count; ++i) {
    most_barriers = std::max(most_barriers, block->fibers[i]->barriers);
  }
}

void prepare(const Grid& grid, const std::function<void()>& body) {
  if (block == nullptr) block = std::make_unique<Block>();
  block->grid = grid;
  block->body = &body;
  block->count = grid.threads.x * grid.threads.y * grid.threads.z;
  if (block->count > 1024) throw std::runtime_error("a block has 1,024 threads at most");
  if (grid.shared > 232448) throw std::runtime_error("a block has 227 KiB of shared memory");
  block->shared.reset(::operator new (grid.shared, std::align_val_t{16}));
  block->backward = rules_now.order == Order::kBackward;
  while (block->fibers.size() < block->count) {
    auto fiber = std::make_unique<Fiber>();
    fiber->stack = mmap(nullptr, kStack, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fiber->stack == MAP_FAILED) throw std::bad_alloc();
    block->fibers.push_back(std::move(fiber));
  }
}

}  // namespace

void set_rules(const Rules& rules) {
  rules_now = rules;
  most_barriers = 0;
}

int barriers_seen() { return most_barriers; }

void run_grid(const Grid& grid, const std::function<void()>& body) {
  prepare(grid, body);
  const Index& size = grid.blocks;
  try {
    in_order(size.x * size.y * size.z, rules_now.order == Order::kBackward, [&](unsigned i) {
      block->at = {i % size.x, i / size.x % size.y, i / size.x / size.y};
      run_block();
    });
  } catch (...) {
    block.reset();  // its threads stand in the middle of something
    throw;
  }
}

Index thread_index() {
  const Index& shape = block->grid.threads;
  const unsigned i = block->now;
  return {i % shape.x, i / shape.x % shape.y, i / shape.x / shape.y};
}
Index block_index() { return block->at; }
Index block_shape() { return block->grid.threads; }
Index grid_shape() { return block->grid.blocks; }
void* shared_bytes() { return block->shared.get(); }
unsigned lane() { return block->now % kWarp; }

void sync_threads() {
  if (running().barriers++ == rules_now.without_barrier) return;
  wait_in(State::kAtBlock);
}
void sync_warp() { wait_in(State::kAtWarp); }

void put_mail(const void* value, std::size_t bytes) {
  Fiber& fiber = running();
  fiber.parity ^= 1U;
  std::memcpy(fiber.mail[fiber.parity], value, bytes);
  sync_warp();
}
const void* mail_of(unsigned other) {
  return block->fibers[block->now / kWarp * kWarp + other]->mail[running().parity];
}

void copy_later(void* to, const void* from, std::size_t bytes) {
  running().copies.push_back({to, from, bytes, running().group});
}
void commit_copies() { ++running().group; }
void wait_copies(int pending) {
  Fiber& fiber = running();
  std::erase_if(fiber.copies, [&](const Copy& copy) {
    if (copy.group >= fiber.group - pending) return false;
    std::memcpy(copy.to, copy.from, copy.bytes);
    return true;
  });
}

}  // namespace fm::emulated
