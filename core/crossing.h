// The way of bytes between a device and memory of the host that its link is slow to reach.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>

#include "core/buffer.h"
#include "core/ledger.h"
#include "core/queue.h"

namespace fm::core {

// Two places of page-locked memory in turn: one piece is on the link while the host reads the one
// before it, or fills the next. A GPU moves bytes at its link's rate there and nowhere else.
//
// Invariant: the host writes to a place when the copy before it has left.
// Thread:    the rank's thread.
// Lifetime:  queue and memory outlive it.
class Crossing {
 public:
  static constexpr Bytes kPlace{4 << 20};

  // `page_locked`: of Device::host_memory(). `place`: bytes of a piece, whole numbers of any type.
  Crossing(Queue& queue, MemorySource& page_locked, Bytes place = kPlace);
  ~Crossing();
  Crossing(const Crossing&) = delete;
  Crossing& operator=(const Crossing&) = delete;

  Queue& queue() const { return queue_; }
  // Calls take(piece) with all pieces in their order, when all that was queued before is done.
  void out(const void* device, Bytes bytes,
           const std::function<void(std::span<const std::byte> piece)>& take);
  // Calls fill(piece), which writes a piece, for all pieces in their order. They are in the
  // device's memory when this returns, behind all that was queued before.
  void in(void* device, Bytes bytes, const std::function<void(std::span<std::byte> piece)>& fill);

 private:
  Queue& queue_;
  Bytes place_;
  Ledger ledger_;  // of what no plan counts (docs/memory.md, "The check before the start")
  std::array<Buffer, 2> places_;
};

}  // namespace fm::core
