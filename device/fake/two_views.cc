#include "device/fake/two_views.h"

#include <sys/mman.h>
#include <unistd.h>

#include <iterator>

#include "core/check.h"

namespace fm::device {
namespace {

constexpr std::size_t kAlignment = 256;
// Between two allocations, so that a kernel that runs past one meets no other's bytes.
constexpr std::size_t kGap = 4096;

std::byte* map(int file, std::size_t size, int access) {
  void* const address = mmap(nullptr, size, access, MAP_SHARED | MAP_NORESERVE, file, 0);
  FM_MACHINE_CHECK(address != MAP_FAILED, core::ExitCode::kOutOfMemory,
                   "the fake device needs addresses for its memory (", size, " bytes)");
  return static_cast<std::byte*>(address);
}

}  // namespace

TwoViews::TwoViews(core::Bytes bytes) : size_(static_cast<std::size_t>(bytes.count())) {
  file_ = memfd_create("fmengine-fake-device", MFD_CLOEXEC);
  FM_MACHINE_CHECK(file_ >= 0 && ftruncate(file_, bytes.count()) == 0, core::ExitCode::kOutOfMemory,
                   "the fake device needs a file in memory (", bytes.count(), " bytes)");
  host_ = map(file_, size_, PROT_NONE);
  kernels_ = map(file_, size_, PROT_READ | PROT_WRITE);
  free_[0] = size_;
}

TwoViews::~TwoViews() {
  munmap(host_, size_);
  munmap(kernels_, size_);
  close(file_);
}

void* TwoViews::allocate(core::Bytes bytes) {
  const std::size_t asked = static_cast<std::size_t>(bytes.count()) + kGap;
  const std::size_t size = (asked + kAlignment - 1) / kAlignment * kAlignment;
  const std::lock_guard lock(mutex_);
  for (auto at = free_.begin(); at != free_.end(); ++at) {
    const auto [offset, room] = *at;
    if (room < size) continue;
    free_.erase(at);
    if (room > size) free_[offset + size] = room - size;
    taken_[offset] = size;
    return host_ + offset;
  }
  return nullptr;
}

void TwoViews::release(void* data) {
  const std::lock_guard lock(mutex_);
  const auto taken = taken_.find(static_cast<std::size_t>(static_cast<std::byte*>(data) - host_));
  FM_CHECK(taken != taken_.end(), "memory of the fake device is given back that was not taken");
  auto [offset, size] = *taken;
  taken_.erase(taken);
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + size == next->first) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += size;
      return;
    }
  }
  free_[offset] = size;
}

void TwoViews::check(const void* host) const {
  FM_CHECK(holds(host), "a kernel of the fake device was given memory of the host, at ", host);
}

}  // namespace fm::device
