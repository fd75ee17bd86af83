#include "core/files/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/check.h"
#include "core/files/files.h"

namespace fm::core {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const int fd = open_regular(path, opened_);
  size_ = static_cast<std::size_t>(opened_.st_size);
  void* mapped = nullptr;
  if (size_ > 0) mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
  const int problem = errno;
  ::close(fd);
  if (mapped == MAP_FAILED) {
    size_ = 0;
    FM_DATA_CHECK(false, "the file must be readable into memory (", path, ": ",
                  std::strerror(problem), ")");
  }
  data_ = static_cast<const std::byte*>(mapped);
  guard_ = CutGuard(bytes());
}

void MappedFile::let_go(std::span<const std::byte> part) const noexcept {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<std::size_t>(part.data() - data_);
  const std::size_t first = (offset + page - 1) / page * page;
  const std::size_t last = (offset + part.size()) / page * page;
  if (last <= first) return;
  static_cast<void>(::madvise(const_cast<std::byte*>(data_) + first, last - first, MADV_DONTNEED));
}

void MappedFile::check_unchanged() const {
  struct stat now {};
  if (::stat(path_.c_str(), &now) != 0) return;
  if (now.st_dev != opened_.st_dev || now.st_ino != opened_.st_ino) return;
  check_unwritten(path_, opened_, now);
}

void MappedFile::check_uncut() const {
  struct stat now {};
  const bool whole = guard_.cut() && ::stat(path_.c_str(), &now) == 0 &&
                     now.st_dev == opened_.st_dev && now.st_ino == opened_.st_ino &&
                     std::cmp_greater_equal(now.st_size, size_);
  FM_MACHINE_CHECK(!whole, ExitCode::kStorageFailed, path_,
                   ": the file must be readable while a run uses it; look at the disk or the "
                   "network it comes from (it still has ",
                   now.st_size, " bytes)");
  FM_DATA_CHECK(!guard_.cut(), path_,
                ": the file must stay as it is while a run reads it; give the run a copy of its "
                "own, or put the new content under a new name (",
                size_, " bytes when it was opened, cut in between)");
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this == &other) return *this;
  release();
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  path_ = std::move(other.path_);
  opened_ = other.opened_;
  guard_ = std::move(other.guard_);
  return *this;
}

MappedFile::~MappedFile() { release(); }

void MappedFile::release() noexcept {
  guard_ = CutGuard();
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  data_ = nullptr;
  size_ = 0;
}

}  // namespace fm::core
