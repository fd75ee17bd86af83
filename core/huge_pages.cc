#include "core/huge_pages.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "core/check.h"

namespace fm::core {

namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kPage = std::size_t{2} << 20;

}  // namespace

void* HugePages::allocate(Bytes bytes) {
  const auto count = static_cast<std::size_t>(bytes.count());
  const std::size_t unit = count < kPage ? kCacheLine : kPage;
  void* const data = std::aligned_alloc(unit, (count + unit - 1) / unit * unit);
  if (data == nullptr) return nullptr;
  // Whole pages only: the last one would be paid for in whole. Where it is refused, small ones do.
  if (count >= kPage) static_cast<void>(::madvise(data, count / kPage * kPage, MADV_HUGEPAGE));
  std::memset(data, 0, count);
  return data;
}

void HugePages::release(void* data, Bytes) noexcept { std::free(data); }

std::unique_ptr<JoinedMemory> HugePages::join(const JoinedParts&) {
  FM_CHECK(false, "huge pages have one address");
}

}  // namespace fm::core
