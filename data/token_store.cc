#include "data/token_store.h"

#include <algorithm>

#include "core/check.h"

namespace fm::data {
namespace {

constexpr std::int64_t kChunk = 1 << 20;  // ids: at most 2 MiB (or 4) stay unused at the end

}  // namespace

TokenStore::TokenStore(core::Ledger& ledger, std::int64_t vocab)
    : ledger_(&ledger), narrow_(vocab <= 1 << 16) {}

void TokenStore::append(std::span<const std::int32_t> ids) {
  while (!ids.empty()) {
    const std::int64_t place = size_ % kChunk;
    if (place == 0) {
      chunks_.emplace_back(*ledger_, core::Account::kData, core::Bytes(kChunk * (narrow_ ? 2 : 4)));
    }
    const auto count = std::min(ids.size(), static_cast<std::size_t>(kChunk - place));
    void* chunk = chunks_.back().data();
    if (narrow_) {
      std::transform(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count),
                     static_cast<std::uint16_t*>(chunk) + place,
                     [](std::int32_t id) { return static_cast<std::uint16_t>(id); });
    } else {
      std::copy_n(ids.begin(), count, static_cast<std::int32_t*>(chunk) + place);
    }
    size_ += static_cast<std::int64_t>(count);
    ids = ids.subspan(count);
  }
}

void TokenStore::read(std::int64_t first, std::span<std::int32_t> ids) const {
  FM_CHECK(first >= 0 && first + static_cast<std::int64_t>(ids.size()) <= size_, "ids ", first,
           " + ", ids.size(), " of a stream of ", size_);
  while (!ids.empty()) {
    const std::int64_t place = first % kChunk;
    const void* chunk = chunks_[static_cast<std::size_t>(first / kChunk)].data();
    const auto count = std::min(ids.size(), static_cast<std::size_t>(kChunk - place));
    if (narrow_) {
      std::copy_n(static_cast<const std::uint16_t*>(chunk) + place, count, ids.begin());
    } else {
      std::copy_n(static_cast<const std::int32_t*>(chunk) + place, count, ids.begin());
    }
    first += static_cast<std::int64_t>(count);
    ids = ids.subspan(count);
  }
}

}  // namespace fm::data
