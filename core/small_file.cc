#include "core/small_file.h"

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

  // "", or why the file is not read.
  std::string refuse(Bytes most, FileKind kind) const {
    struct stat about {};
    if (fd_ < 0 || ::fstat(fd_, &about) != 0) return std::strerror(errno);
    if (S_ISDIR(about.st_mode)) return "it is a folder";
    const bool regular = S_ISREG(about.st_mode);
    if (kind == FileKind::kRegular && !regular) return "it is no regular file";
    if (!regular || about.st_size <= most.count()) return "";
    return concat("it has ", human(Bytes(about.st_size)), ", ", human(most), " are the most");
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
      if (got < 0) return {"", std::strerror(errno)};
      if (got == 0) return file;
      file.text.append(chunk.data(), static_cast<std::size_t>(got));
      const auto size = static_cast<std::int64_t>(file.text.size());
      if (size > most.count()) return {"", "it does not end after " + human(most)};
    }
  }

 private:
  int fd_;
};

}  // namespace

SmallFile read_small_file(const std::filesystem::path& path, Bytes most, FileKind kind,
                          int patience_ms) {
  const Reader reader(path);
  std::string problem = reader.refuse(most, kind);
  if (!problem.empty()) return {"", std::move(problem)};
  return reader.read(most, patience_ms);
}

}  // namespace fm::core
