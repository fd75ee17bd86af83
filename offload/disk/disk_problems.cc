#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "core/check.h"
#include "offload/disk/disk_loop.h"
#include "offload/disk_store.h"

namespace fm::offload {
namespace {

namespace fs = std::filesystem;
using core::Bytes;
using Problems = std::vector<DiskProblem>;

template <class... Parts>
void refuse(Problems& problems, const Parts&... parts) {
  problems.push_back({DiskProblem::Weight::kRefused, core::concat(parts...)});
}
template <class... Parts>
void note(Problems& problems, const Parts&... parts) {
  problems.push_back({DiskProblem::Weight::kNote, core::concat(parts...)});
}

// The folder, or the one above it in which it will be made.
fs::path existing(fs::path folder) {
  struct stat at {};
  while (::stat(folder.c_str(), &at) != 0 && errno == ENOENT && folder != folder.parent_path()) {
    folder = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
    if (folder == ".") break;
  }
  return folder;
}

// Of all ranks of this host: what one drive of `striping` gets at most.
Bytes bytes_on_drive(const Striping& striping, int drive, const DiskNeed& need) {
  if (striping.drives == 1) return need.of_host;
  const Bytes as_the_largest = striping.bytes_on(drive, need.of_rank) * need.ranks;
  return std::min(as_the_largest, need.of_host / striping.drives + striping.stripe * need.ranks);
}

bool may_write(Problems& problems, const fs::path& folder, const fs::path& there) {
  struct stat at {};
  const bool folder_there = ::stat(there.c_str(), &at) == 0 && S_ISDIR(at.st_mode);
  if (!folder_there) errno = ENOTDIR;
  if (folder_there && ::access(there.c_str(), W_OK | X_OK) == 0) return true;
  refuse(problems, "a folder for sleeping bytes must be writable; name another folder (",
         folder.string(), ": ", std::strerror(errno), ")");
  return false;
}

void look_at_kind(Problems& problems, const fs::path& folder, const fs::path& there) {
  struct statfs kind {};
  if (::statfs(there.c_str(), &kind) != 0) return;
  if (kind.f_type == TMPFS_MAGIC || kind.f_type == RAMFS_MAGIC) {
    note(problems, "what sleeps in ", folder.string(),
         " stays in memory, which its file system is made of; name a folder of a drive");
  }
  if (kind.f_type == NFS_SUPER_MAGIC) {
    note(problems, folder.string(), " is on a network file system: slow, and every rank's link ",
         "carries what sleeps there; name a folder of a drive of the host");
  }
}

void look_at_limits(Problems& problems, const DiskOptions& options, const DiskNeed& need,
                    Bytes file) {
  struct rlimit limit {};
  const auto limited = [&](auto which) {
    return ::getrlimit(which, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  };
  if (limited(RLIMIT_FSIZE) && limit.rlim_cur < static_cast<rlim_t>(file.count())) {
    refuse(problems,
           "a file of sleeping bytes must be within the limit of files; raise ulimit -f (",
           "needed=", file.count(), " bytes, limit=", limit.rlim_cur, " bytes)");
  }
  const bool root = ::geteuid() == 0;
  if (!root && limited(RLIMIT_MEMLOCK) && limit.rlim_cur < static_cast<rlim_t>(need.ring.count())) {
    note(problems,
         "memory that drives move to is not registered, which costs some CPU time; raise ",
         "ulimit -l (needed=", need.ring.count(), " bytes, limit=", limit.rlim_cur, " bytes)");
  }
  if (!options.direct) {
    note(problems, "what sleeps passes through the page cache and is dropped from it behind every ",
         "block; a control group's memory counts it meanwhile");
  }
}

struct Drive {
  fs::path folder;  // the first one
  Bytes needed;
  int folders = 0;
};

void look_at_room(Problems& problems, const Drive& drive, const DiskNeed& need) {
  struct statvfs room {};
  if (::statvfs(existing(drive.folder).c_str(), &room) != 0) return;
  if ((room.f_flag & ST_RDONLY) != 0) {
    refuse(problems, "a folder for sleeping bytes must be writable; name another folder (",
           drive.folder.string(), ": ", std::strerror(EROFS), ")");
  }
  const std::uint64_t free = room.f_bavail * room.f_frsize;
  if (free < static_cast<std::uint64_t>(drive.needed.count())) {
    refuse(problems, "a drive must have room for what sleeps there; make room, or name another ",
           "folder (", drive.folder.string(), ": needed=", drive.needed.count(), " bytes for ",
           need.ranks, need.ranks == 1 ? " rank" : " ranks", ", free=", free, " bytes)");
  }
  const auto files = static_cast<std::uint64_t>(need.ranks) * drive.folders;
  if (room.f_files > 0 && room.f_favail < files) {
    refuse(problems, "a drive must have inodes for a file per rank; make room, or name another ",
           "folder (", drive.folder.string(), ": needed=", files, ", free=", room.f_favail, ")");
  }
  if (drive.folders > 1) {
    note(problems, drive.folders, " folders are on one file system: turns between them make ",
         "nothing faster (", drive.folder.string(), ")");
  }
}

}  // namespace

Problems disk_problems(const DiskPlace& place, const DiskOptions& options, const DiskNeed& need) {
  Problems problems;
  const Striping striping{.stripe = place.stripe, .drives = static_cast<int>(place.folders.size())};
  std::map<dev_t, Drive> drives;
  for (int drive = 0; drive < striping.drives; ++drive) {
    const fs::path& folder = place.folders[static_cast<std::size_t>(drive)];
    const fs::path there = existing(folder);
    if (!may_write(problems, folder, there)) continue;
    look_at_kind(problems, folder, there);
    struct stat at {};
    ::stat(there.c_str(), &at);
    Drive& its = drives[at.st_dev];
    if (its.folders++ == 0) its.folder = folder;
    its.needed += bytes_on_drive(striping, drive, need);
  }
  for (const auto& [device, drive] : drives) look_at_room(problems, drive, need);
  look_at_limits(problems, options, need,
                 striping.drives == 0 ? Bytes(0) : striping.bytes_on(0, need.of_rank));
  return problems;
}

}  // namespace fm::offload
