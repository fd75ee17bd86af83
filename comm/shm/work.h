// What a rank does in a collective once it can read every member's contribution: plain loops over
// memory.
#pragma once

#include <cstring>
#include <span>

#include "comm/communicator.h"
#include "comm/wire/fabric.h"

namespace fm::comm {

inline void copy_bytes(const void* from, void* to, core::Bytes bytes) {
  if (from == to || bytes == core::Bytes(0)) return;
  std::memcpy(to, from, static_cast<std::size_t>(bytes.count()));
}

struct ShmWork {
  Verb verb = Verb::kBarrier;
  int rank = 0;
  int root = 0;
  ConstSpan own;  // this rank's contribution
  Span receive;
  std::span<std::byte* const> rows;  // every member's contribution, in rank order (broadcast: the
                                     // root's, null for others)
  SumVisitor* visitor = nullptr;     // reduce_scatter
};

// Reads all of `rows`; all_gather, reduce_scatter, all_to_all, broadcast: writes `receive`.
// all_reduce of small values: likewise.
void shm_work(const ShmWork& work);

// all_reduce in one pass: the sum of this rank's part is written into every member's row.
void shm_all_reduce_in_place(const ShmWork& work);

}  // namespace fm::comm
