// Work space for one call of a unit: a bump allocator over memory that the caller owns.
//
// Invariant: everything taken inside a Scope is given back when the Scope ends.
// Thread:    one thread.
// Lifetime:  the memory outlives the arena; pointers die with their Scope.
#pragma once

#include <cstddef>
#include <span>

#include "core/check.h"
#include "core/queue.h"
#include "core/types.h"

namespace fm::core {

class Arena {
 public:
  Arena() = default;  // gives nothing
  // `queue`: of the device whose memory this is; null: of this process.
  explicit Arena(std::span<std::byte> memory, Queue* queue = nullptr)
      : memory_(memory), queue_(queue) {}

  // `count` numbers of T, 64-byte aligned where the memory is, not cleared. Asking for more than
  // the unit announced is a defect.
  template <class T>
  T* take(std::int64_t count) {
    return reinterpret_cast<T*>(take_bytes(aligned<T>(count)));
  }

  // What `take<T>(count)` really uses.
  template <class T>
  static constexpr Bytes aligned(std::int64_t count) {
    return round_up(Bytes(count * static_cast<std::int64_t>(sizeof(T))), Bytes(64));
  }

  // The same arena, over memory of the same size in this process.
  std::byte* data() const { return memory_.data(); }
  Arena moved_to(std::byte* memory) const {
    Arena moved = *this;
    moved.memory_ = {memory, memory_.size()};
    moved.queue_ = nullptr;
    return moved;
  }

  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), mark_(arena.used_) {}
    ~Scope() {
      if (arena_.queue_ != nullptr) arena_.forget_from(mark_);
      arena_.used_ = mark_;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    std::size_t mark_;
  };

 private:
  std::byte* take_bytes(Bytes bytes) {
    const auto size = static_cast<std::size_t>(bytes.count());
    FM_CHECK(used_ + size <= memory_.size(), "arena of ", memory_.size(), " bytes is too small, ",
             used_, " used, asked ", size);
    std::byte* const taken = memory_.data() + used_;
    used_ += size;
    return taken;
  }

  void forget_from(std::size_t mark) {
    queue_->forget(memory_.data() + mark, Bytes(static_cast<std::int64_t>(used_ - mark)));
  }

  std::span<std::byte> memory_;
  std::size_t used_ = 0;
  Queue* queue_ = nullptr;
};

}  // namespace fm::core
