#include "offload/disk/page_sums.h"

#include <array>

#include "core/crc32c.h"
#include "offload/slice_store.h"

namespace fm::offload {
namespace {

constexpr auto kPageSize = static_cast<std::size_t>(kPage.count());

std::size_t page_of(core::Bytes at) { return static_cast<std::size_t>(at / kPage); }

}  // namespace

PageSums::PageSums(core::Bytes bytes)
    : of_zeros_(core::crc32c(std::array<std::byte, kPageSize>{})),
      sums_(page_of(bytes), of_zeros_) {}

void PageSums::note(core::Bytes at, std::span<const std::byte> bytes) {
  std::size_t page = page_of(at);
  for (; !bytes.empty(); bytes = bytes.subspan(kPageSize)) {
    sums_[page++] = core::crc32c(bytes.first(kPageSize));
  }
}

std::optional<PageSums::Difference> PageSums::compare(core::Bytes at,
                                                      std::span<const std::byte> bytes) const {
  std::size_t page = page_of(at);
  for (; !bytes.empty(); bytes = bytes.subspan(kPageSize), ++page) {
    const std::uint32_t sum = core::crc32c(bytes.first(kPageSize));
    if (sum == sums_[page]) continue;
    return Difference{kPage * static_cast<std::int64_t>(page), sum, sums_[page]};
  }
  return std::nullopt;
}

core::Bytes PageSums::memory(core::Bytes bytes) {
  return core::Bytes(bytes / kPage * static_cast<std::int64_t>(sizeof(std::uint32_t)));
}

}  // namespace fm::offload
