#include "offload/disk/drive_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "core/check.h"
#include "core/fault.h"
#include "core/files/draft_folder.h"
#include "core/files/durable_file.h"
#include "core/files/output_file.h"
#include "offload/slice_store.h"

namespace fm::offload {
namespace {

namespace fs = std::filesystem;

constexpr auto kStorage = core::ExitCode::kStorageFailed;
constexpr mode_t kOwnerOnly = 0600;
constexpr std::size_t kLongestWord = 64;
constexpr const char* kName = "fmengine-sleep";  // of all such files, behind ".tmp-"

// What a file may be called everywhere.
std::string file_word(std::string_view run) {
  std::string word(run.substr(0, kLongestWord));
  std::replace_if(
      word.begin(), word.end(),
      [](unsigned char at) { return std::isalnum(at) == 0 && at != '.' && at != '-'; }, '-');
  return word;
}

std::string free_space(const fs::path& folder) {
  struct statvfs room {};
  if (::statvfs(folder.c_str(), &room) != 0) return "free: unknown";
  return core::concat("free=", room.f_bavail * room.f_frsize, " bytes");
}

// Beyond the limit the system would send a signal, which ends the process without a word.
void check_limit(const fs::path& folder, core::Bytes bytes) {
  struct rlimit limit {};
  const bool limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  FM_MACHINE_CHECK(!limited || static_cast<rlim_t>(bytes.count()) <= limit.rlim_cur, kStorage,
                   "a file of sleeping bytes must be within the limit of files; raise ulimit -f (",
                   folder.string(), " needs ", bytes.count(), " bytes, limit=", limit.rlim_cur,
                   " bytes)");
}

// posix_fallocate() writes where a file system cannot reserve, which is slow and as good.
void reserve(int fd, const fs::path& folder, const FileSpec& spec) {
  int error = EINTR;
  switch (core::fault({"offload.open", spec.world_rank})) {
    case core::FaultEffect::kNoSpace: error = ENOSPC; break;
    case core::FaultEffect::kIoError: error = EIO; break;
    case core::FaultEffect::kNone:
    case core::FaultEffect::kNan: break;
  }
  while (error == EINTR) error = ::posix_fallocate(fd, 0, spec.bytes.count());
  FM_MACHINE_CHECK(
      error == 0, kStorage,
      "a drive must have room for what sleeps there; make room, or name another folder "
      "(",
      folder.string(), ": ", std::strerror(error), ", needed=", spec.bytes.count(), " bytes, ",
      free_space(folder), ")");
}

int make_without_name(const fs::path& folder, const FileSpec& spec) {
  const fs::path path = folder / core::concat(".tmp-", kName, '-', file_word(spec.run), "-rank",
                                              spec.world_rank, '-', core::random_tag());
  const int fd =
      ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kOwnerOnly);
  FM_MACHINE_CHECK(fd >= 0, kStorage,
                   "a folder for sleeping bytes must be writable; name another folder (",
                   path.string(), ": ", std::strerror(errno), ")");
  // Held for those who sweep, on file systems that keep the name of an open file.
  ::flock(fd, LOCK_EX | LOCK_NB);
  ::unlink(path.c_str());  // what stays is swept by a later run
  return fd;
}

}  // namespace

DriveFile::DriveFile(const fs::path& folder, const FileSpec& spec) : folder_(folder) {
  check_limit(folder, spec.bytes);
  core::make_folders(folder);
  core::sweep_drafts(folder, kName);
  fd_ = make_without_name(folder, spec);
  // Pages that the system reads ahead would stay in its cache, where that is used.
  ::posix_fadvise(fd_, 0, 0, POSIX_FADV_RANDOM);
  try {
    reserve(fd_, folder, spec);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

DriveFile::DriveFile(DriveFile&& other) noexcept
    : folder_(std::move(other.folder_)), fd_(std::exchange(other.fd_, -1)) {}

DriveFile::~DriveFile() {
  if (fd_ >= 0) ::close(fd_);
}

Cache DriveFile::go_past_cache() {
  const int flags = ::fcntl(fd_, F_GETFL);
  if (::fcntl(fd_, F_SETFL, flags | O_DIRECT) != 0) return Cache::kThrough;
  const auto page = static_cast<std::size_t>(kPage.count());
  const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(page, page),
                                                           std::free);
  FM_MACHINE_CHECK(memory != nullptr, core::ExitCode::kOutOfMemory, "a page must be free");
  if (::pread(fd_, memory.get(), page, 0) >= 0 || errno != EINVAL) return Cache::kPast;
  ::fcntl(fd_, F_SETFL, flags);
  return Cache::kThrough;
}

}  // namespace fm::offload
