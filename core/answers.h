// Numbers that kernels write and the host reads.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "core/check.h"
#include "core/work.h"

namespace fm::core {

// On this CPU both see the same memory; of a device's, the host reads a copy.
//
// Thread:   the rank's thread.
// Lifetime: the memory's ledger and source outlive it.
template <class T>
class Answers {
 public:
  Answers() = default;
  Answers(const RankMemory& memory, std::size_t count) : here_(count) {
    if (memory.source.of_host()) return;
    const Bytes bytes(static_cast<std::int64_t>(count * sizeof(T)));
    there_ = Buffer(memory.ledger, Account::kScratch, bytes, memory.source);
  }

  std::size_t size() const { return here_.size(); }
  // Where kernels write.
  std::span<T> place() {
    if (there_.data() == nullptr) return here_;
    return {static_cast<T*>(there_.data()), here_.size()};
  }
  // `count` from `first` on, when all that was queued before is done; until they are read again.
  std::span<T> read(const Work& work, std::size_t count, std::size_t first = 0) {
    FM_CHECK(first + count <= here_.size(), "of ", here_.size(), " answers ", first, " to ",
             first + count, " are read");
    const std::span<T> out = std::span(here_).subspan(first, count);
    if (there_.data() != nullptr && count > 0) {
      const Bytes bytes(static_cast<std::int64_t>(count * sizeof(T)));
      work.queue->copy_out(place().data() + first, out.data(), bytes);
      work.queue->finish();
    }
    return out;
  }
  std::span<T> read(const Work& work) { return read(work, here_.size()); }

 private:
  std::vector<T> here_;
  Buffer there_;
};

}  // namespace fm::core
