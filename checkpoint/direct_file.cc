#include "checkpoint/direct_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "core/check.h"
#include "core/crc32c.h"

namespace fm::checkpoint {
namespace {

constexpr std::int64_t kPage = 4096;  // what O_DIRECT wants offsets, lengths and memory to be
constexpr auto kNoCheckpoint = core::ExitCode::kNoCheckpoint;

constexpr std::int64_t floor_page(std::int64_t at) { return at / kPage * kPage; }
constexpr std::int64_t ceil_page(std::int64_t at) { return floor_page(at + kPage - 1); }

// A pipe in place of the file would wait for a writer: O_NONBLOCK.
int open_file(const char* path, int more) {
  return ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | more);
}

}  // namespace

DirectFile::DirectFile(const std::filesystem::path& path)
    : path_(path.string()), fd_(open_file(path_.c_str(), O_DIRECT)) {
  if (fd_ < 0 && errno == EINVAL) {  // the file system has no O_DIRECT
    direct_ = false;
    fd_ = open_file(path_.c_str(), 0);
  }
  struct stat found {};
  std::string problem;
  if (fd_ < 0 || ::fstat(fd_, &found) != 0) {
    problem = std::strerror(errno);
  } else if (!S_ISREG(found.st_mode)) {
    problem = "it is no regular file";
  }
  if (!problem.empty() && fd_ >= 0) ::close(fd_);
  FM_MACHINE_CHECK(problem.empty(), kNoCheckpoint, path_, ": the file must be readable (", problem,
                   ")");
  size_ = found.st_size;
  block_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, kMostBytes + 2 * kPage)));
  if (block_ == nullptr) {
    ::close(fd_);
    throw std::bad_alloc();
  }
}

DirectFile::~DirectFile() { ::close(fd_); }

std::span<const std::byte> DirectFile::read(std::int64_t offset, std::int64_t bytes) {
  FM_CHECK(bytes <= kMostBytes, "a read of ", bytes, " bytes");
  const std::int64_t begin = floor_page(offset);
  const std::int64_t end = ceil_page(offset + bytes);
  std::int64_t done = begin;
  int error = 0;
  while (done < end) {
    const ssize_t got =
        ::pread(fd_, block_.get() + (done - begin), static_cast<std::size_t>(end - done), done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EINVAL && direct_) {  // opened with O_DIRECT, but not read
      direct_ = false;
      ::fcntl(fd_, F_SETFL, O_RDONLY);
      continue;
    }
    if (got < 0) error = errno;
    if (got <= 0) break;
    done += got;
    if (done % kPage != 0 && direct_) break;  // the end of the file
  }
  if (!direct_) ::posix_fadvise(fd_, begin, end - begin, POSIX_FADV_DONTNEED);
  FM_MACHINE_CHECK(done >= offset + bytes, kNoCheckpoint, path_, ": bytes [", offset, ", ",
                   offset + bytes, ") must be readable (",
                   error != 0 ? std::strerror(error) : "the file ends before", ")");
  return {block_.get() + (offset - begin), static_cast<std::size_t>(bytes)};
}

std::uint32_t DirectFile::crc_of(std::int64_t offset, std::int64_t bytes) {
  std::uint32_t crc = 0;
  const std::int64_t end = offset + bytes;
  while (offset < end) {
    const std::int64_t piece = std::min(end - offset, kMostBytes);
    crc = core::crc32c(read(offset, piece), crc);
    offset += piece;
  }
  return crc;
}

}  // namespace fm::checkpoint
