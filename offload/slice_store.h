// Bytes of one rank that sleep outside of its memory.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "core/types.h"

namespace fm::offload {

// Places in a store, and fast reads and writes, are multiples of this many bytes.
inline constexpr core::Bytes kPage(4096);

// Bytes that are on their way from or to a store.
//
// Invariant: the memory of a move is nobody else's until wait() returns, but later moves' of the
//            same store.
// Thread:    the rank's thread.
// Lifetime:  the store outlives it.
class Move {
 public:
  class UnderWay {
   public:
    // Where nobody has waited, the move is over when this returns.
    virtual ~UnderWay() = default;
    // Throws MachineError (26) naming file and cause. Called once.
    virtual void wait() = 0;
  };

  Move() = default;  // nothing is under way
  explicit Move(std::unique_ptr<UnderWay> state) : state_(std::move(state)) {}
  // The bytes are there, or have left. Nothing to do where that was so before.
  void wait() {
    if (const std::unique_ptr<UnderWay> state = std::move(state_)) state->wait();
  }

 private:
  std::unique_ptr<UnderWay> state_;
};

// A range of a store as it was when it was held: writes into it that are asked for later wait
// until this is gone.
//
// Thread:    any one, such as a save's; the holder ends by its own strength, as ranks wait for it.
// Lifetime:  the store outlives it.
class HeldBytes {
 public:
  virtual ~HeldBytes() = default;
  // Within the range, as SliceStore::read. Whoever asks waits for the move in the same thread.
  virtual Move read(core::Bytes at, std::span<std::byte> into) = 0;
};

// One address space [0, bytes()); what was never written reads as zeros.
//
// Thread:   the rank's thread asks. Moves of the same place, or of the same memory, are made in the
//           order in which they were asked for; others in any.
// Lifetime: outlives its moves and what is held.
class SliceStore {
 public:
  struct Totals {
    core::Bytes read, written;
    double waited_seconds = 0.0;  // by the rank's thread, in Move::wait
  };

  virtual ~SliceStore() = default;
  virtual core::Bytes bytes() const = 0;
  // `at` and the size are multiples of kPage. Memory that is not aligned to kPage is copied on its
  // way.
  virtual Move read(core::Bytes at, std::span<std::byte> into) = 0;
  virtual Move write(core::Bytes at, std::span<const std::byte> from) = 0;
  // Memory that moves will use again and again, until the store dies: registered, where that helps.
  virtual void will_use(std::span<std::byte> memory) = 0;
  virtual Totals totals() const = 0;
  virtual std::unique_ptr<HeldBytes> hold(core::Bytes at, core::Bytes bytes) = 0;
  // "io_uring, O_DIRECT, 2 drives, 8 x 1 MiB under way on each"
  virtual std::string describe() const = 0;
};

// In this process's memory, for tests: moves are made when they are waited for, in the order in
// which they were asked for, and until then what is read is NaN.
std::unique_ptr<SliceStore> in_host_memory(core::Bytes bytes);

}  // namespace fm::offload
