// Which part of the values of a verb belongs to which rank, and sums of parts over the nodes of a
// host layout.
#pragma once

#include <span>
#include <vector>

#include "comm/communicator.h"
#include "comm/host_layout.h"

namespace fm::comm {

// A contiguous range of the values of a verb.
struct ValueRange {
  core::Bytes offset;
  core::Elements elements;
  core::DType dtype = core::DType::kF32;

  core::Bytes bytes() const { return core::bytes_of(elements, dtype); }
  Span of(void* values) const {
    return {static_cast<std::byte*>(values) + offset.count(), elements, dtype};
  }
};

// How values are split over ranks: rank r has elements [r * each, (r + 1) * each), the last ranks
// fewer. kEverybody: every rank has all of them.
struct RankSplit {
  enum class Whose : std::uint8_t { kOneEach, kEverybody };
  core::DType dtype = core::DType::kF32;
  core::Elements whole = core::Elements(0);
  core::Elements each = core::Elements(0);
  Whose whose = Whose::kOneEach;

  ValueRange part(int rank) const;
};

// rows: the contributions of the members of a host, by their position on it. out: `part` of every
// node of the host, one after the other.
void sum_nodes_of_host(const HostLayout& layout, int host, std::span<std::byte* const> rows,
                       const ValueRange& part, std::byte* out);

// out = the sum of the nodes' values (by number) along the layout's additions. `visitor` may be
// null. No value may overlap `out`.
void sum_above_nodes(const HostLayout& layout, std::span<const std::byte* const> nodes,
                     const Span& out, SumVisitor* visitor);

}  // namespace fm::comm
