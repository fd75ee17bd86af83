// Who owns which slice of a flat buffer: arithmetic only.
#pragma once

#include "core/types.h"

namespace fm::core {

inline constexpr Elements kBlock(1024);  // slices are whole blocks; sums of squares are per block

// A flat buffer of `elements` cut into `owners` equal slices of whole blocks; the padding at the
// end holds zeros for ever.
struct ShardMap {
  Elements elements;
  int owners = 1;

  constexpr Elements slice() const {
    return round_up(Elements(ceil_div(elements.count(), owners)), kBlock);
  }
  constexpr Elements padded() const { return slice() * owners; }
  constexpr Elements first_of(int owner) const { return slice() * owner; }
  // Blocks that hold parameters; independent of the number of owners.
  constexpr std::int64_t blocks() const { return ceil_div(elements.count(), kBlock.count()); }
};

}  // namespace fm::core
