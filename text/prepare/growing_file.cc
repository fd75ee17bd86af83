#include "text/prepare/growing_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/check.h"

namespace fm::prepare {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 20;
constexpr mode_t kFileMode = 0666;  // the umask decides

}  // namespace

GrowingFile::GrowingFile(std::filesystem::path path)
    : path_(std::move(path)),
      fd_(::open(path_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, kFileMode)) {
  if (fd_ < 0) fail("create");
}

GrowingFile::~GrowingFile() { ::close(fd_); }

void GrowingFile::put_bytes(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  if (buffer_.size() >= kBuffer) flush();
}

void GrowingFile::flush() {
  for (std::size_t done = 0; done < buffer_.size();) {
    const ssize_t wrote = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) fail("write");
    done += static_cast<std::size_t>(wrote);
  }
  buffer_.clear();
}

void GrowingFile::sync() {
  flush();
  if (::fsync(fd_) != 0) fail("write");
}

void GrowingFile::fail(const char* action) const {
  const int error = errno;
  throw core::MachineError(
      core::ExitCode::kStorageFailed,
      core::concat("storage must take the tokens of the data; check space, quota and permissions, "
                   "or name another folder with --cache_dir, or --out of fmengine-tokenize (",
                   action, " ", path_.string(), ": ", std::strerror(error), ")"));
}

}  // namespace fm::prepare
