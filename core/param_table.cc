#include "core/param_table.h"

#include <algorithm>

#include "core/check.h"

namespace fm::core {
namespace {

constexpr Elements kEntryAlignment(16);  // 64 bytes of fp32

bool decays(ParamKind kind, const NoDecay& no_decay) {
  switch (kind) {
    case ParamKind::kMatrix: return true;
    case ParamKind::kEmbedding: return !no_decay.embedding;
    case ParamKind::kNorm: return !no_decay.norm;
    case ParamKind::kBias: return !no_decay.bias;
  }
  return true;
}

}  // namespace

ParamTable::ParamTable(std::vector<ParamEntry> entries, const NoDecay& no_decay)
    : entries_(std::move(entries)) {
  std::stable_partition(entries_.begin(), entries_.end(),
                        [&](const ParamEntry& entry) { return decays(entry.kind, no_decay); });
  for (ParamEntry& entry : entries_) {
    std::int64_t numel = 1;
    for (const std::int64_t dim : entry.shape) numel *= dim;
    FM_CHECK(numel > 0, "parameter ", entry.name, " has no elements");
    entry.numel = Elements(numel);
    entry.offset = elements_;
    elements_ = round_up(elements_ + entry.numel, kEntryAlignment);
    parameters_ += entry.numel;
    if (decays(entry.kind, no_decay)) decayed_ = elements_;
  }
}

const ParamEntry* ParamTable::find_at(Elements flat_offset) const {
  for (const ParamEntry& entry : entries_) {
    if (flat_offset >= entry.offset && flat_offset < entry.offset + entry.numel) return &entry;
  }
  return nullptr;
}

std::vector<TensorSlice> cut_slices(const ParamTable& table, Elements first, Elements count,
                                    float* base) {
  std::vector<TensorSlice> out;
  for (const ParamEntry& entry : table.entries()) {
    const Elements begin = std::max(first, entry.offset);
    const Elements end = std::min(first + count, entry.offset + entry.numel);
    if (begin >= end) continue;
    TensorSlice slice;
    slice.name = entry.name;
    slice.shape = entry.shape;
    slice.first = begin - entry.offset;
    slice.data = base + (begin - first).count();
    slice.count = end - begin;
    out.push_back(std::move(slice));
  }
  return out;
}

}  // namespace fm::core
