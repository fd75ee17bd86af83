#include "core/files/draft_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/files/durable_file.h"

namespace fm::core {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::minutes kOld{10};  // longer than between making a folder and locking it
constexpr mode_t kFileMode = 0666;        // the umask decides

bool is_old(const fs::path& path) {
  std::error_code error;
  const fs::file_time_type written = fs::last_write_time(path, error);
  return !error && fs::file_time_type::clock::now() - written > kOld;
}

enum class Lock : std::uint8_t { kNone, kFree, kHeld };

Lock lock_of(const fs::path& path) {
  std::error_code error;
  const bool folder = fs::is_directory(path, error);
  const int fd = ::open((folder ? path / kDraftLock : path).c_str(),
                        O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return Lock::kNone;
  const bool free = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  ::close(fd);
  if (!free) return Lock::kHeld;
  return folder ? Lock::kFree : Lock::kNone;  // a file may be one that nobody locks
}

bool is_dead(const fs::path& path) {
  const Lock lock = lock_of(path);
  return lock == Lock::kFree || (lock == Lock::kNone && is_old(path));
}

void discard_quietly(const fs::path& path) noexcept {
  try {
    discard_folder(path);
  } catch (const std::exception&) {  // another process discards it, or the disk is broken
  }
}

}  // namespace

DraftFolder::DraftFolder(const fs::path& parent, const std::string& name)
    : path_(parent / concat(".tmp-", name, "-", random_tag())) {
  make_folders(path_);
  // A file system without locks has none that is free either: there drafts are left where they are.
  lock_ = ::open((path_ / kDraftLock).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kFileMode);
  if (lock_ >= 0) ::flock(lock_, LOCK_EX | LOCK_NB);
}

DraftFolder::~DraftFolder() {
  std::error_code ignored;
  if (fs::exists(path_, ignored)) discard_quietly(path_);
  if (lock_ >= 0) ::close(lock_);
}

void DraftFolder::close() {
  std::error_code error;
  fs::remove(path_ / kDraftLock, error);
  sync_folder(path_);
}

void DraftFolder::publish(const fs::path& to, const std::string& sign) {
  close();
  std::error_code error;
  fs::rename(path_, to, error);
  if (error && fs::exists(to / sign)) return;
  FM_MACHINE_CHECK(!error, ExitCode::kStorageFailed, "storage must take the tokens of the ",
                   "data; check space, quota and permissions, or name another folder with ",
                   "--cache_dir (rename to ", to.string(), ": ", error.message(), ")");
  sync_folder(to.parent_path());
}

bool is_held(const fs::path& draft) { return lock_of(draft) == Lock::kHeld; }

void sweep_drafts(const fs::path& parent, const std::string& name) {
  std::vector<fs::path> dead;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, error)) {
    const std::string file = entry.path().filename().string();
    const bool ours = is_leftover(file) &&
                      (file.starts_with(".tmp-" + name) || file.starts_with(".trash-.tmp-" + name));
    if (ours && !entry.is_symlink(error) && is_dead(entry.path())) dead.push_back(entry.path());
  }
  for (const fs::path& path : dead) discard_quietly(path);
}

}  // namespace fm::core
