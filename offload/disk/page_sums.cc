#include "offload/disk/page_sums.h"

#include <algorithm>
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
  core::crc32c_each(bytes, kPageSize,
                    std::span(sums_).subspan(page_of(at), bytes.size() / kPageSize));
}

std::optional<PageSums::Difference> PageSums::compare(core::Bytes at,
                                                      std::span<const std::byte> bytes) const {
  std::array<std::uint32_t, 64> read;
  const std::size_t first = page_of(at);
  const std::size_t pages = bytes.size() / kPageSize;
  for (std::size_t done = 0; done < pages; done += read.size()) {
    const std::size_t count = std::min(read.size(), pages - done);
    core::crc32c_each(bytes.subspan(done * kPageSize, count * kPageSize), kPageSize,
                      std::span(read).first(count));
    const auto written = std::span(sums_).subspan(first + done, count);
    const auto [sum, other] = std::ranges::mismatch(std::span(read).first(count), written);
    if (other == written.end()) continue;
    const auto page = static_cast<std::int64_t>(first + done) + (other - written.begin());
    return Difference{kPage * page, *sum, *other};
  }
  return std::nullopt;
}

core::Bytes PageSums::memory(core::Bytes bytes) {
  return core::Bytes(bytes / kPage * static_cast<std::int64_t>(sizeof(std::uint32_t)));
}

}  // namespace fm::offload
