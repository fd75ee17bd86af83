#include "zero/groups.h"

#include <algorithm>

namespace fm::zero {

using core::Elements;

std::vector<core::TensorSlice> cut_slices(const core::ParamTable& table, Elements first,
                                          Elements count, float* base) {
  std::vector<core::TensorSlice> out;
  for (const core::ParamEntry& entry : table.entries()) {
    const Elements begin = std::max(first, entry.offset);
    const Elements end = std::min(first + count, entry.offset + entry.numel);
    if (begin >= end) continue;
    core::TensorSlice slice;
    slice.name = entry.name;
    slice.shape = entry.shape;
    slice.first = begin - entry.offset;
    slice.data = base + (begin - first).count();
    slice.count = end - begin;
    out.push_back(std::move(slice));
  }
  return out;
}

void clear_gaps(const core::ParamTable& table, const core::ShardMap& map, float* whole) {
  Elements written;
  for (const core::ParamEntry& entry : table.entries()) {
    std::fill(whole + written.count(), whole + entry.offset.count(), 0.0F);
    written = entry.offset + entry.numel;
  }
  std::fill(whole + written.count(), whole + map.padded().count(), 0.0F);
}

}  // namespace fm::zero
