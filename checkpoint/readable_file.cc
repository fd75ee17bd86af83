#include "checkpoint/readable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace fm::checkpoint {

core::ExitCode code_of_read(int error) {
  switch (error) {
    case 0:
    case EACCES:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENOENT:
    case ENOTDIR:
    case ENOTSUP:  // no regular file
    case EPERM: return core::ExitCode::kNoCheckpoint;
    default: return core::ExitCode::kStorageFailed;  // EIO, ESTALE, and what else a mount says
  }
}

void throw_unread(const std::string& what, int error) {
  const core::ExitCode code = code_of_read(error);
  const char* const cure =
      code == core::ExitCode::kNoCheckpoint
          ? " must exist and be readable; restore it, or resume from another checkpoint ("
          : " must be readable before any checkpoint is taken; mend the disk or its mount and "
            "start again, or move that checkpoint away to go on from an older one (";
  throw core::MachineError(code, core::concat(what, cure, std::strerror(error), ")"));
}

ReadableFile::ReadableFile(const std::filesystem::path& path)
    : path_(path.string()), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (fd_ < 0) throw_unread(path_ + ": the file", errno);
}

ReadableFile::~ReadableFile() { ::close(fd_); }

void ReadableFile::read(std::int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(fd_, bytes.data(), bytes.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    const int error = errno;
    const std::int64_t end = offset + static_cast<std::int64_t>(bytes.size());
    if (got < 0) throw_unread(core::concat(path_, ": bytes [", offset, ", ", end, ")"), error);
    FM_MACHINE_CHECK(got > 0, core::ExitCode::kNoCheckpoint, path_, ": bytes [", offset, ", ", end,
                     ") must be there; restore the file, or resume from another checkpoint (the ",
                     "file ends before)");
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
}

}  // namespace fm::checkpoint
