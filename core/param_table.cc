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

IndexRange even_part(std::int64_t size, Share share) {
  const std::int64_t each = size / share.count;
  const std::int64_t rest = size % share.count;
  return {.first = each * share.index + std::min<std::int64_t>(share.index, rest),
          .count = each + (share.index < rest ? 1 : 0)};
}

Elements ParamEntry::inner() const {
  Elements out(1);
  const auto dim = static_cast<std::size_t>(std::max(split_dim, 0));
  for (std::size_t at = dim + 1; at < shape.size(); ++at) out = out * shape[at];
  return out;
}

Elements ParamEntry::row() const {
  std::int64_t indices = 0;
  for (const IndexRange& part : parts) indices += part.count;
  return inner() * indices;
}

Elements ParamEntry::stride() const {
  return inner() * shape[static_cast<std::size_t>(std::max(split_dim, 0))];
}

ParamTable::ParamTable(std::vector<ParamEntry> entries, const NoDecay& no_decay, Share share)
    : entries_(std::move(entries)) {
  std::stable_partition(entries_.begin(), entries_.end(),
                        [&](const ParamEntry& entry) { return decays(entry.kind, no_decay); });
  for (ParamEntry& entry : entries_) {
    std::int64_t numel = 1;
    for (const std::int64_t dim : entry.shape) numel *= dim;
    FM_CHECK(numel > 0, "parameter ", entry.name, " has no elements");
    const std::int64_t indices =
        entry.shape[static_cast<std::size_t>(std::max(entry.split_dim, 0))];
    if (entry.split_dim < 0) {
      entry.parts = {{.first = 0, .count = indices, .holder = share}};
    } else if (entry.parts.empty()) {
      entry.parts = {even_part(indices, share)};
    }
    entry.numel = entry.row() * (Elements(numel) / entry.stride());
    FM_CHECK(entry.numel.count() > 0, "parameter ", entry.name, " cannot be cut into ", share.count,
             " parts");
    entry.offset = elements_;
    elements_ = round_up(elements_ + entry.numel, kEntryAlignment);
    parameters_ += share.count == 1 ? entry.numel : Elements(numel);  // other ranks have the rest
    if (decays(entry.kind, no_decay)) decayed_ = elements_;
  }
}

std::vector<FlatRange> ParamTable::repeats() const {
  std::vector<FlatRange> out;
  for (const ParamEntry& entry : entries_) {
    Elements at = entry.offset;
    while (at < entry.offset + entry.numel) {
      for (const IndexRange& part : entry.parts) {
        const Elements count = entry.inner() * part.count;
        if (part.holder.index > 0) out.push_back({at, count});
        at += count;
      }
    }
  }
  return out;
}

const ParamEntry* ParamTable::find_at(Elements flat_offset) const {
  for (const ParamEntry& entry : entries_) {
    if (flat_offset >= entry.offset && flat_offset < entry.offset + entry.numel) return &entry;
  }
  return nullptr;
}

}  // namespace fm::core
