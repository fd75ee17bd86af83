#include "core/file_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/check.h"

namespace fm::core {

int open_regular(const std::string& path, struct stat& opened) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  FM_DATA_CHECK(fd >= 0, "the file must exist and be readable; check the path (", path, ": ",
                std::strerror(errno), ")");
  if (::fstat(fd, &opened) == 0 && S_ISREG(opened.st_mode)) return fd;
  ::close(fd);
  FM_DATA_CHECK(false, "a regular file is required; check the path (", path, ")");
}

void check_unwritten(const std::string& path, const struct stat& opened, const struct stat& now) {
  const bool same = now.st_size == opened.st_size && now.st_mtim.tv_sec == opened.st_mtim.tv_sec &&
                    now.st_mtim.tv_nsec == opened.st_mtim.tv_nsec;
  FM_DATA_CHECK(same, path,
                ": the file must stay as it is while a run reads it; give the run a copy of its "
                "own, or put the new content under a new name (",
                opened.st_size, " bytes when it was opened, ", now.st_size,
                " now, written in between)");
}

FileStream::FileStream(const std::string& path) : path_(path), fd_(open_regular(path, opened_)) {
  piece_.resize(std::min(kPiece, size()));
}

FileStream::~FileStream() { ::close(fd_); }

std::string_view FileStream::next() {
  const std::size_t wanted = std::min(kPiece, size() - read_);
  std::size_t got = 0;
  while (got < wanted) {
    const auto offset = static_cast<off_t>(read_ + got);
    const ssize_t count = ::pread(fd_, piece_.data() + got, wanted - got, offset);
    if (count < 0 && errno == EINTR) continue;
    FM_DATA_CHECK(count >= 0, "the file must be readable (", path_, ": ", std::strerror(errno),
                  ")");
    if (count == 0) break;  // it is shorter than it was
    got += static_cast<std::size_t>(count);
  }
  struct stat now {};
  FM_DATA_CHECK(::fstat(fd_, &now) == 0, "the file must be readable (", path_, ": ",
                std::strerror(errno), ")");
  check_unwritten(path_, opened_, now);
  FM_DATA_CHECK(got == wanted, path_, ": the file must hold the bytes that it says it has (",
                read_ + got, " of ", size(), ")");
  read_ += got;
  return {piece_.data(), got};
}

}  // namespace fm::core
