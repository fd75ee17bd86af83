#include "comm/shm_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/check.h"

namespace fm::comm {
namespace {

constexpr std::int64_t kPage = 4096;
constexpr std::int64_t kGiveBack = 1 << 20;  // free blocks from this size on leave memory
constexpr int kPopulateWrite = 23;           // MADV_POPULATE_WRITE, Linux 5.14

std::int64_t whole_pages(core::Bytes bytes) {
  return core::round_up(bytes, core::Bytes(kPage)).count();
}

}  // namespace

Mapping::Mapping(int file, core::Bytes bytes, const char* what) : bytes_(bytes) {
  void* const data = mmap(nullptr, static_cast<std::size_t>(bytes.count()), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_NORESERVE, file, 0);
  FM_MACHINE_CHECK(data != MAP_FAILED, core::ExitCode::kOutOfMemory, what,
                   " must be mapped; raise the limit of address space (ulimit -v) or pass --shm "
                   "false (",
                   bytes.count(), " bytes: ", std::strerror(errno), ")");
  data_ = static_cast<std::byte*>(data);
}

Mapping::~Mapping() { munmap(data_, static_cast<std::size_t>(bytes_.count())); }

bool make_present(void* data, core::Bytes bytes) {
  const auto size = static_cast<std::size_t>(whole_pages(bytes));
  if (madvise(data, size, kPopulateWrite) == 0) return true;
  if (errno != EINVAL) return false;
  // An older kernel: touch. Reading is enough for pages of a memfd, and a peer may be writing.
  const volatile std::byte* const pages = static_cast<std::byte*>(data);
  for (std::size_t at = 0; at < size; at += kPage) static_cast<void>(pages[at]);
  return true;
}

ShmRegion::ShmRegion(core::Bytes length) : file_(memfd_create("fmengine", MFD_CLOEXEC)) {
  FM_MACHINE_CHECK(file_ >= 0 && ftruncate(file_, length.count()) == 0,
                   core::ExitCode::kOutOfMemory,
                   "memory that ranks share must be made; pass --shm false to do without (",
                   length.count(), " bytes: ", std::strerror(errno), ")");
  mapping_ = std::make_unique<Mapping>(file_, length, "memory that ranks share");
}

ShmRegion::~ShmRegion() {
  mapping_.reset();
  close(file_);
}

void* ShmRegion::allocate(core::Bytes bytes) {
  const std::int64_t size = whole_pages(bytes);
  std::vector<std::byte*>& free = free_[size];
  std::byte* block = nullptr;
  if (!free.empty()) {
    block = free.back();
    free.pop_back();
    if (size < kGiveBack) std::memset(block, 0, static_cast<std::size_t>(size));
  } else {
    if (size > length().count() - used_) return nullptr;
    block = data() + used_;
    used_ += size;
  }
  if (make_present(block, core::Bytes(size))) return block;
  release(block, bytes);
  return nullptr;
}

void ShmRegion::release(void* data, core::Bytes bytes) noexcept {
  const std::int64_t size = whole_pages(bytes);
  auto* const block = static_cast<std::byte*>(data);
  // What is given back reads as zero when it is made present again.
  if (size >= kGiveBack) {
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, block - this->data(), size);
  }
  free_[size].push_back(block);
}

}  // namespace fm::comm
