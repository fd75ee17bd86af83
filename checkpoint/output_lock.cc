#include "checkpoint/output_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "comm/agree.h"
#include "core/check.h"
#include "core/files/draft_folder.h"
#include "core/files/durable_file.h"
#include "core/files/files.h"
#include "core/process.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string holder_text(std::int64_t generation) {
  const nlohmann::ordered_json holder = {
      {"host", core::host_name()},  {"pid", ::getpid()},
      {"boot_id", core::boot_id()}, {"since", static_cast<std::int64_t>(std::time(nullptr))},
      {"tag", core::random_tag()},  {"generation", generation}};
  return holder.dump();
}

// Nothing of what is no file, nor of what is longer than anything that is written here.
std::string first_line_of(int fd) {
  std::array<char, 4096> bytes{};
  const ssize_t count = ::pread(fd, bytes.data(), bytes.size(), 0);
  const std::string_view text(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(0, count)));
  const std::size_t end = std::min(text.find('\n'), text.size());
  return end == bytes.size() ? "" : std::string(text.substr(0, end));
}

std::string first_line(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return "";
  std::string line = first_line_of(fd);
  ::close(fd);
  return line;
}

// Folders and files that a killed run left behind, not what an export writes beside the run. Links
// are not touched.
void sweep(const fs::path& output_dir) {
  std::vector<fs::path> dead;
  for (const fs::directory_entry& entry : fs::directory_iterator(output_dir)) {
    const bool link = fs::is_symlink(entry.symlink_status());
    const bool left = !link && core::is_leftover(entry.path().filename().string());
    if (left && !core::is_held(entry.path())) dead.push_back(entry.path());
  }
  for (const fs::path& path : dead) {
    std::error_code ignored;  // what cannot be deleted now harms nobody
    fs::remove_all(path, ignored);
  }
}

// Of the folder, or of where it would be made; folders alone: a file's may differ from its folder's
// (overlayfs). 0 when nothing tells.
std::uint64_t device_of(fs::path folder) {
  struct stat at {};
  while (::stat(folder.c_str(), &at) != 0) {
    if (errno != ENOENT || folder == folder.parent_path()) return 0;
    folder = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
    if (folder == "." && ::stat(".", &at) != 0) return 0;
  }
  return at.st_dev;
}

std::string text_of_device(std::uint64_t device) {
  return core::concat(gnu_dev_major(device), ':', gnu_dev_minor(device));
}

}  // namespace

std::string first_line_of_lock(const fs::path& output_dir) {
  return first_line(output_dir / "LOCK");
}

OutputLock::OutputLock(const fs::path& output_dir) : OutputLock(output_dir, "") {}

OutputLock::OutputLock(const fs::path& output_dir, const std::string& holder)
    : output_dir_(output_dir), holder_(holder) {
  const std::string not_made = comm::attempt([&] { core::make_folders(output_dir); });
  std::error_code error;
  FM_MACHINE_CHECK(not_made.empty() && fs::is_directory(output_dir, error),
                   core::ExitCode::kStorageFailed,
                   "output_dir must be a directory that can be made; choose another (",
                   output_dir.string(), ": ", not_made.empty() ? error.message() : not_made, ")");
  device_ = device_of(output_dir);
  const fs::path path = output_dir / "LOCK";
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  FM_MACHINE_CHECK(fd_ >= 0, core::ExitCode::kStorageFailed,
                   "output_dir must be writable; choose another (", path.string(), ": ",
                   std::strerror(errno), ")");
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int problem = errno;
    ::close(std::exchange(fd_, -1));
    FM_MACHINE_CHECK(
        problem != EWOULDBLOCK, core::ExitCode::kLocked,
        "output_dir must belong to one run at a time; wait for the other run or choose ",
        "another output_dir (", output_dir.string(), " is held by ", first_line(path), ")");
    FM_MACHINE_CHECK(false, core::ExitCode::kStorageFailed,
                     "output_dir must be on a file system with flock; choose another (",
                     path.string(), ": ", std::strerror(problem), ")");
  }
  sweep(output_dir);  // first: what lies there may be what fills the disk
  if (holder_.empty()) holder_ = holder_text(generation_in(first_line_of(fd_)) + 1);
  write_holder();
}

// Over the words before it, which are there until the new ones are: a full disk has room for them,
// and nobody finds an empty file.
void OutputLock::write_holder() {
  const std::string text = holder_ + "\n";
  const auto size = static_cast<ssize_t>(text.size());
  const bool written = ::pwrite(fd_, text.data(), text.size(), 0) == size;
  if (::ftruncate(fd_, written ? size : 0) == 0 && written) {
    ::fdatasync(fd_);  // other hosts read it now; what cannot be synced is found by the first save
    return;
  }
  // The lock is held without its text; a disk without room for it is found by the first save.
  std::fprintf(stderr, "fmengine: %s cannot be written\n", (output_dir_ / "LOCK").c_str());
}

OutputLock::OutputLock(OutputLock&& other) noexcept
    : output_dir_(std::move(other.output_dir_)),
      device_(other.device_),
      holder_(std::move(other.holder_)),
      fd_(std::exchange(other.fd_, -1)) {}

std::string OutputLock::renew() {
  const fs::path path = output_dir_ / "LOCK";
  // Its text counts too: not every file system keeps the numbers of its files.
  if (core::leads_to(path, fd_) || first_line(path) == holder_) return "";
  OutputLock again(output_dir_, holder_);  // the same words: it is the same start
  std::swap(fd_, again.fd_);
  return "the output directory or its LOCK was deleted or replaced during the run: made again (" +
         output_dir_.string() + ")";
}

std::string OutputLock::moved() const {
  // Its text tells the folder of a file system that was mounted again under another number.
  const std::uint64_t now = device_of(output_dir_);
  if (now == device_ || first_line(output_dir_ / "LOCK") == holder_) return "";
  return core::concat(
      "the output directory must stay on its file system, or checkpoints are written elsewhere "
      "without a word; mount it again (",
      output_dir_.string(), ", device ", text_of_device(device_), " when the run began, ",
      text_of_device(now), " now)");
}

OutputLock::~OutputLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace fm::checkpoint
