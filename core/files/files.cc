#include "core/files/files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "core/check.h"
#include "core/text.h"

namespace fm::core {
namespace {

using Clock = std::chrono::steady_clock;

class Reader {
 public:
  // Not blocking, because the other end of a FIFO may never be opened.
  explicit Reader(const std::filesystem::path& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() {
    if (fd_ >= 0) ::close(fd_);
  }

  // Without a problem, or why the file is not read.
  SmallFile refuse(Bytes most, FileKind kind) const {
    struct stat about {};
    if (fd_ < 0 || ::fstat(fd_, &about) != 0) return failed();
    if (S_ISDIR(about.st_mode)) return {"", "it is a folder"};
    const bool regular = S_ISREG(about.st_mode);
    if (kind == FileKind::kRegular && !regular) return {"", "it is no regular file"};
    if (!regular || about.st_size <= most.count()) return {};
    return {"", concat("it has ", human(Bytes(about.st_size)), ", ", human(most), " are the most")};
  }

  SmallFile read(Bytes most, int patience_ms) const {
    const auto end = Clock::now() + std::chrono::milliseconds(patience_ms);
    SmallFile file;
    std::array<char, 1 << 16> chunk{};
    while (true) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
      pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
      const int found = ::poll(&ready, 1, std::max(0, static_cast<int>(left.count())));
      if (found == 0) return {"", concat("its end did not come within ", patience_ms / 1000, " s")};
      const ssize_t got = found < 0 ? -1 : ::read(fd_, chunk.data(), chunk.size());
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got < 0) return failed();
      if (got == 0) return file;
      file.text.append(chunk.data(), static_cast<std::size_t>(got));
      const auto size = static_cast<std::int64_t>(file.text.size());
      if (size > most.count()) return {"", "it does not end after " + human(most)};
    }
  }

 private:
  static SmallFile failed() {
    const int error = errno;
    return {"", std::strerror(error), error};
  }

  int fd_;
};

}  // namespace

SmallFile read_small_file(const std::filesystem::path& path, Bytes most, FileKind kind,
                          int patience_ms) {
  const Reader reader(path);
  SmallFile file = reader.refuse(most, kind);
  if (!file.problem.empty()) return file;
  file = reader.read(most, patience_ms);
  if (file.problem.empty() && is_lfs_pointer(file.text)) file.problem = kIsLfsPointer;
  return file;
}

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

bool leads_to(const std::filesystem::path& path, int fd) {
  struct stat named {};
  struct stat open {};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(fd, &open) == 0 &&
         named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

}  // namespace fm::core
