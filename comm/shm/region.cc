#include "comm/shm/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/check.h"

namespace fm::comm {
namespace {

constexpr std::int64_t kPage = 4096;
constexpr std::int64_t kGiveBack = 1 << 20;  // free blocks of this size or more release their pages
constexpr int kPopulateWrite = 23;           // MADV_POPULATE_WRITE, Linux 5.14

std::int64_t whole_pages(core::Bytes bytes) {
  return core::round_up(bytes, core::Bytes(kPage)).count();
}

// One range of addresses that maps pieces of a region's file.
class JoinedPieces : public core::JoinedMemory {
 public:
  using Known = std::map<const void*, core::JoinedParts>;

  JoinedPieces(const ShmRegion& region, const core::JoinedParts& parts,
               std::shared_ptr<Known> known)
      : bytes_(parts.part * parts.parts), known_(std::move(known)) {
    FM_CHECK(parts.part.count() % kPage == 0, "parts are whole pages");
    data_ = static_cast<std::byte*>(
        mmap(nullptr, size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    check(data_ != MAP_FAILED);
    const std::int64_t part = parts.part.count();
    const std::int64_t before = part * parts.place;
    const auto* const others = static_cast<const std::byte*>(parts.others);
    map(region, others, 0, before);
    map(region, static_cast<const std::byte*>(parts.own), before, part);
    map(region, others + before, before + part, bytes_.count() - before - part);
    check(make_present(data_, bytes_));
    known_->emplace(data_, parts);
  }
  ~JoinedPieces() override {
    known_->erase(data_);
    munmap(data_, size());
  }

  void* data() const override { return data_; }

 private:
  std::size_t size() const { return static_cast<std::size_t>(bytes_.count()); }
  void check(bool mapped) const {
    FM_MACHINE_CHECK(mapped, core::ExitCode::kOutOfMemory,
                     "memory that ranks share must be mapped a second time; raise the limits of "
                     "address space and of mappings (vm.max_map_count) or pass --shm false (",
                     bytes_.count(), " bytes: ", std::strerror(errno), ")");
  }
  void map(const ShmRegion& region, const std::byte* piece, std::int64_t at, std::int64_t bytes) {
    if (bytes == 0) return;
    const void* const mapped =
        mmap(data_ + at, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED | MAP_NORESERVE, region.file(), piece - region.data());
    check(mapped != MAP_FAILED);
  }

  core::Bytes bytes_;
  std::byte* data_ = nullptr;
  std::shared_ptr<Known> known_;
};

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
  // Older kernels: touch every page. Reading suffices for a memfd, and a peer may be writing.
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
  // Released pages read as zero when they are mapped again.
  if (size >= kGiveBack) {
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, block - this->data(), size);
  }
  free_[size].push_back(block);
}

std::unique_ptr<core::JoinedMemory> ShmRegion::join(const core::JoinedParts& parts) {
  return std::make_unique<JoinedPieces>(*this, parts, joined_);
}

const core::JoinedParts* ShmRegion::parts_at(const void* joined) const {
  const auto found = joined_->find(joined);
  return found == joined_->end() ? nullptr : &found->second;
}

}  // namespace fm::comm
