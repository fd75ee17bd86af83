#include "core/files/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/files/files.h"

namespace fm::core {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kFileMode = 0666;  // the umask decides

// The system's own links to open files: what they lead to may have no name.
bool is_open_file(const fs::path& link) { return link.string().starts_with("/proc/"); }

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// A file that nobody locks belongs to a process that has died.
void sweep(const fs::path& folder, const std::string& name) {
  std::error_code error;
  std::vector<fs::path> drafts;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string file = entry.path().filename().string();
    const bool ours = is_leftover(file) && file.size() == name.size() + 14 &&
                      file.starts_with(".tmp-" + name + "-");
    if (ours && fs::is_regular_file(entry.symlink_status(error))) drafts.push_back(entry.path());
  }
  for (const fs::path& draft : drafts) {
    const int fd = ::open(draft.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) continue;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) fs::remove(draft, error);
    ::close(fd);
  }
}

// Of the file before; not everybody may give a file away.
void keep_owner(int fd, const struct stat& before) {
  const bool given = ::fchown(fd, before.st_uid, before.st_gid) == 0;
  ::fchmod(fd, given ? before.st_mode & 07777 : before.st_mode & 0777);
}

}  // namespace

OutputFile::OutputFile(fs::path path, int patience_ms) : path_(std::move(path)) {
  struct stat there {};
  const fs::path target = behind_links(path_);
  const bool taken = ::stat(path_.c_str(), &there) == 0;
  if (!taken && errno == ELOOP) {
    error_ = ELOOP;
  } else if (taken && S_ISDIR(there.st_mode)) {
    error_ = EISDIR;
  } else if (is_open_file(target) || (taken && !S_ISREG(there.st_mode))) {
    open_through(patience_ms);
  } else {
    path_ = target;
    open_draft();
    // The folder is another's, the file is ours.
    if (error_ == EACCES && taken) open_through(patience_ms);
    if (!draft_.empty() && taken) keep_owner(::fileno(file_), there);
  }
}

OutputFile::~OutputFile() {
  std::error_code ignored;
  if (file_ != nullptr && !draft_.empty()) fs::remove(draft_, ignored);
  if (file_ != nullptr) std::fclose(file_);
}

void OutputFile::take(int fd) {
  error_ = fd < 0 ? errno : 0;
  if (fd >= 0) file_ = ::fdopen(fd, "w");
}

void OutputFile::open_draft() {
  const fs::path folder = folder_of(path_);
  const std::string name = path_.filename().string();
  sweep(folder, name);
  while (true) {
    const fs::path draft = folder / concat(".tmp-", name, "-", random_tag());
    const int fd = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode);
    // Another process may sweep before the lock; without locks it finds none that is free.
    const bool locked = fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) == 0;
    const bool swept = locked ? !leads_to(draft, fd) : fd >= 0 && errno == EWOULDBLOCK;
    if (swept) {
      ::close(fd);
      continue;
    }
    take(fd);
    if (file_ != nullptr) draft_ = draft;
    return;
  }
}

void OutputFile::open_through(int patience_ms) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds(patience_ms);
  int fd = -1;
  while (true) {  // no signal tells that a pipe has found its reader
    fd = ::open(path_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd >= 0 || errno != ENXIO || Clock::now() >= end) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  take(fd);
  if (fd >= 0) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
}

void OutputFile::add(std::string_view text) {
  if (error_ != 0) return;
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) error_ = errno;
}

std::string OutputFile::finish() {
  if (error_ == 0 && std::fflush(file_) != 0) error_ = errno;
  if (error_ == 0 && !draft_.empty() && std::rename(draft_.c_str(), path_.c_str()) != 0) {
    error_ = errno;
  }
  if (error_ != 0) return std::strerror(error_);
  // What a network file system could not write shows here; the name is given already.
  if (std::fclose(std::exchange(file_, nullptr)) != 0) error_ = errno;
  return error_ == 0 ? "" : std::strerror(error_);
}

std::string write_output_file(const fs::path& path, std::string_view text) {
  OutputFile file(path);
  file.add(text);
  return file.finish();
}

void check_output(const OutputName& name, const fs::path& path, int error) {
  if (error == 0) return;
  const bool disk = error == EROFS || error == ENOSPC || error == EDQUOT || error == EIO;
  const char* const why = error == ENXIO ? "nobody reads it" : std::strerror(error);
  const std::string message =
      concat("the ", name.what, " must have a place that can be written; choose one with ",
             name.flag, " FILE (", path.string(), ": ", why, ")");
  if (disk) throw MachineError(ExitCode::kStorageFailed, message);
  throw UserError(ExitCode::kConfigError, message);
}

fs::path behind_links(fs::path path) {
  constexpr int kMostLinks = 40;  // as Linux follows
  std::error_code error;
  for (int links = 0; links < kMostLinks && fs::is_symlink(path, error); ++links) {
    if (is_open_file(path)) return path;
    path = folder_of(path) / fs::read_symlink(path, error);
  }
  return path;
}

std::string random_tag() {
  std::random_device device;
  char text[9];
  std::snprintf(text, sizeof(text), "%08x", static_cast<unsigned>(device()));
  return text;
}

bool is_leftover(std::string_view name) {
  constexpr std::size_t kDigits = 8;
  if (!name.starts_with(".tmp-") && !name.starts_with(".trash-")) return false;
  const std::size_t dash = name.rfind('-');
  const std::string_view digits = name.substr(dash + 1);
  return digits.size() == kDigits && std::all_of(digits.begin(), digits.end(), [](char letter) {
           return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'f');
         });
}

}  // namespace fm::core
