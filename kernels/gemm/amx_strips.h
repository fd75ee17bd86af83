// Operands of AMX products, packed for tiles. A packed strip is a row of steps of 32 terms; a step
// holds the parts, high first, of two tiles (kernels/gemm/amx_pack_tile.h).
#pragma once

#include "kernels/gemm/amx_pack_tile.h"

namespace fm::kernels::amx {

inline std::int64_t steps_of(std::int64_t depth) { return (depth + kStep - 1) / kStep; }

// A step of a strip, from `from` on.
template <Side kWanted, class T>
void pack_step(const Source<T>& source, const T* from, Extent extent, std::byte* to) {
  const std::int64_t second = kSide * (source.adjacent_terms ? source.stride : 1);
  for (const std::int64_t tile : {0, 1}) {
    const Extent rest{extent.vectors - tile * kSide, extent.terms};
    const T* tile_from = from + tile * second;
    std::byte* tile_to = to + tile * kTileBytes;
    if (source.adjacent_terms) {
      pack_tile<kWanted, true>(tile_from, source.stride, rest, tile_to);
    } else {
      pack_tile<kWanted, false>(tile_from, source.stride, rest, tile_to);
    }
  }
}

// Every step of one strip.
template <Side kWanted, class T>
void pack_strip(const Source<T>& source, OperandOffset place, Extent extent, std::byte* to) {
  for (std::int64_t term = 0; term < extent.terms; term += kStep, to += kStepBytesOf<T>) {
    pack_step<kWanted>(source, source.at(place.vector, place.term + term),
                       {extent.vectors, extent.terms - term}, to);
  }
}

// Piece i of a held block, in an order that reads memory along its rows: a strip where terms are
// adjacent, else a step of all strips.
template <Side kWanted, class T>
void pack_piece(const Source<T>& source, OperandOffset place, Extent extent, std::int64_t i,
                std::byte* to) {
  const std::int64_t strip_bytes = steps_of(extent.terms) * kStepBytesOf<T>;
  if (source.adjacent_terms) {
    const std::int64_t vector = i * kStrip;
    pack_strip<kWanted>(source, {place.vector + vector, place.term},
                        {extent.vectors - vector, extent.terms}, to + i * strip_bytes);
    return;
  }
  const std::int64_t term = i * kStep;
  for (std::int64_t vector = 0; vector < extent.vectors; vector += kStrip) {
    pack_step<kWanted>(source, source.at(place.vector + vector, place.term + term),
                       {extent.vectors - vector, extent.terms - term},
                       to + vector / kStrip * strip_bytes + i * kStepBytesOf<T>);
  }
}

}  // namespace fm::kernels::amx
