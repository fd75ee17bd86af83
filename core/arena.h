// Work space for one call of a unit: a bump allocator over memory that the caller owns.
//
// Invariant: everything taken inside a Scope is given back when the Scope ends.
// Thread:    one thread.
// Lifetime:  the memory outlives the arena; pointers die with their Scope.
#pragma once

#include <span>

#include "core/check.h"
#include "core/types.h"

namespace fm::core {

class Arena {
 public:
  explicit Arena(std::span<float> memory) : memory_(memory) {}

  // 64-byte aligned, not cleared. Asking for more than the unit announced is a defect.
  float* take(std::int64_t elements) {
    const auto rounded = static_cast<std::size_t>(aligned(elements));
    FM_CHECK(used_ + rounded <= memory_.size(), "arena of ", memory_.size(),
             " elements is too small, ", used_, " used, asked ", elements);
    float* taken = memory_.data() + used_;
    used_ += rounded;
    return taken;
  }

  // What `take(elements)` really uses.
  static constexpr std::int64_t aligned(std::int64_t elements) { return (elements + 15) / 16 * 16; }

  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), mark_(arena.used_) {}
    ~Scope() { arena_.used_ = mark_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    std::size_t mark_;
  };

 private:
  std::span<float> memory_;
  std::size_t used_ = 0;
};

}  // namespace fm::core
