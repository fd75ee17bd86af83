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

Elements ParamEntry::row() const { return stride() / share.count; }

Elements ParamEntry::stride() const {
  Elements out(1);
  const auto outer = static_cast<std::size_t>(share.count > 1 ? split_dim : 0);
  for (std::size_t dim = outer; dim < shape.size(); ++dim) out = out * shape[dim];
  return out;
}

ParamTable::ParamTable(std::vector<ParamEntry> entries, const NoDecay& no_decay, Share share)
    : entries_(std::move(entries)) {
  std::stable_partition(entries_.begin(), entries_.end(),
                        [&](const ParamEntry& entry) { return decays(entry.kind, no_decay); });
  for (ParamEntry& entry : entries_) {
    std::int64_t numel = 1;
    for (const std::int64_t dim : entry.shape) numel *= dim;
    FM_CHECK(numel > 0, "parameter ", entry.name, " has no elements");
    if (entry.split_dim >= 0) entry.share = share;
    const auto dim = static_cast<std::size_t>(std::max(entry.split_dim, 0));
    FM_CHECK(entry.share.count == 1 || entry.shape[dim] % entry.share.count == 0, "parameter ",
             entry.name, " cannot be cut into ", entry.share.count, " parts");
    entry.numel = Elements(numel) / entry.share.count;
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

}  // namespace fm::core
