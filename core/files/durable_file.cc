#include "core/files/durable_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "core/check.h"

namespace fm::core {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kFileMode = 0666;  // the umask decides
constexpr mode_t kFolderMode = 0777;

[[noreturn]] void fail(const fs::path& path, const char* action, int error) {
  throw MachineError(
      ExitCode::kStorageFailed,
      concat("storage must take what is written; check space, quota and ", "permissions (", action,
             " ", path.string(), ": ", std::strerror(error), ")"));
}

void reserve(int fd, const fs::path& path, Bytes bytes) {
  if (bytes.count() == 0) return;
  int error = EINTR;
  while (error == EINTR) error = ::posix_fallocate(fd, 0, bytes.count());
  const bool unsupported = error == EOPNOTSUPP || error == EINVAL;
  if (unsupported) error = ::ftruncate(fd, bytes.count()) == 0 ? 0 : errno;
  if (error == 0) return;
  ::close(fd);
  fail(path, "reserve", error);
}

void remove_tree(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) fail(folder, "delete", error.value());
}

void rename_over(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail(to, "rename to", errno);
}

fs::path aside_of(const fs::path& folder) {
  const fs::path parent = fs::absolute(folder).parent_path();
  return parent / concat(".bad-", folder.filename().string(), "-", random_tag());
}

// Without flags: `to` steps aside, takes the name `from` when `from` has its own.
void exchange_in_steps(const fs::path& from, const fs::path& to) {
  if (!fs::exists(fs::symlink_status(to))) return rename_over(from, to);
  const fs::path aside = aside_of(to);
  rename_over(to, aside);
  try {
    rename_over(from, to);
  } catch (const MachineError&) {
    rename_over(aside, to);
    throw;
  }
  rename_over(aside, from);
}

}  // namespace

WritableFile WritableFile::create(const fs::path& path, Bytes bytes) {
  const int fd =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode);
  if (fd < 0) fail(path, "create", errno);
  reserve(fd, path, bytes);
  return {fd, path};
}

WritableFile WritableFile::open(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) fail(path, "open", errno);
  return {fd, path};
}

WritableFile::WritableFile(WritableFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

WritableFile::~WritableFile() {
  if (fd_ >= 0) ::close(fd_);
}

void WritableFile::write_at(Bytes offset, std::span<const std::byte> bytes) {
  auto at = static_cast<off_t>(offset.count());
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "write", errno);
    if (written == 0) fail(path_, "write", ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    at += written;
  }
}

void WritableFile::sync_and_close() {
  const int synced = ::fdatasync(fd_) == 0 ? 0 : errno;
  const int closed = ::close(std::exchange(fd_, -1)) == 0 ? 0 : errno;
  if (synced != 0) fail(path_, "fdatasync", synced);
  if (closed != 0) fail(path_, "close", closed);
}

void write_new_file(const fs::path& path, std::string_view text) {
  WritableFile file = WritableFile::create(path, Bytes(static_cast<std::int64_t>(text.size())));
  file.write_at(Bytes(0), std::as_bytes(std::span(text.data(), text.size())));
  file.sync_and_close();
}

void replace_file(const fs::path& path, std::string_view text) {
  const fs::path fresh =
      path.parent_path() / concat(".tmp-", path.filename().string(), "-", random_tag());
  write_new_file(fresh, text);
  rename_over(fresh, path);
  sync_folder(path.parent_path());
}

void replace_file(const fs::path& path, const std::function<void(std::ostream&)>& write) {
  const fs::path fresh =
      path.parent_path() / concat(".tmp-", path.filename().string(), "-", random_tag());
  try {
    std::ofstream file(fresh, std::ios::binary);
    if (!file.good()) fail(fresh, "create", errno);
    write(file);
    file.close();
    if (file.fail()) fail(fresh, "write", errno);
    WritableFile::open(fresh).sync_and_close();
  } catch (...) {  // a full disk gets its room back
    ::unlink(fresh.c_str());
    throw;
  }
  rename_over(fresh, path);
  sync_folder(path.parent_path());
}

void sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail(folder, "open", errno);
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  const bool meaningless = error == EINVAL;  // some network file systems have nothing to do here
  if (error != 0 && !meaningless) fail(folder, "fsync", error);
}

void make_folders(const fs::path& folder) {
  fs::path path = fs::absolute(folder).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();  // "out/" means "out"
  std::error_code ignored;  // what cannot be looked at cannot be made either, said below
  if (path == path.root_path() || fs::is_directory(path, ignored)) return;
  make_folders(path.parent_path());
  if (::mkdir(path.c_str(), kFolderMode) != 0 && errno != EEXIST) fail(path, "make", errno);
  sync_folder(path.parent_path());
}

int flagged_rename(const char* from, const char* to, unsigned flags) {
  return ::renameat2(AT_FDCWD, from, AT_FDCWD, to, flags);
}

bool publish_folder(const fs::path& from, const fs::path& to, FlaggedRename rename) {
  bool exchanged = false;
  int error = rename(from.c_str(), to.c_str(), RENAME_NOREPLACE) == 0 ? 0 : errno;
  if (error == EEXIST) {
    exchanged = true;
    error = rename(from.c_str(), to.c_str(), RENAME_EXCHANGE) == 0 ? 0 : errno;
  }
  const bool no_flags = error == EINVAL || error == ENOSYS;
  if (no_flags) {
    exchanged = fs::exists(fs::symlink_status(to));
    exchange_in_steps(from, to);
  } else if (error != 0) {
    fail(to, "rename to", error);
  }
  sync_folder(to.parent_path());
  return exchanged;
}

void rename_folder(const fs::path& from, const fs::path& to) {
  rename_over(from, to);
  sync_folder(to.parent_path());
}

fs::path put_aside(const fs::path& folder) {
  fs::path aside = aside_of(folder);
  rename_folder(folder, aside);
  return aside;
}

void discard_folder(const fs::path& folder) {
  const fs::path parent = folder.parent_path();
  const fs::path trash = parent / concat(".trash-", folder.filename().string(), "-", random_tag());
  rename_over(folder, trash);
  sync_folder(parent);
  remove_tree(trash);
}

}  // namespace fm::core
