// Bytes that survive a power cut: files of a known size written in place by several ranks, and
// folders that appear and disappear by rename. Everything throws MachineError (26) with path and
// cause.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>

#include "core/files/output_file.h"
#include "core/types.h"

namespace fm::core {

// Invariant: owns one descriptor; data is on disk only after sync_and_close() returned.
// Thread:    one.
// Lifetime:  move-only; a destructor without sync_and_close() just gives the descriptor back.
class WritableFile {
 public:
  // A new file that has all its blocks (a full disk shows here). Must not exist.
  static WritableFile create(const std::filesystem::path& path, Bytes bytes);
  // Opens what another rank created; never follows a symbolic link.
  static WritableFile open(const std::filesystem::path& path);
  WritableFile(WritableFile&& other) noexcept;
  WritableFile& operator=(WritableFile&&) = delete;
  ~WritableFile();

  void write_at(Bytes offset, std::span<const std::byte> bytes);
  void sync_and_close();

 private:
  WritableFile(int fd, std::filesystem::path path) : fd_(fd), path_(std::move(path)) {}

  int fd_;
  std::filesystem::path path_;
};

// Writes a new file and fsyncs it.
void write_new_file(const std::filesystem::path& path, std::string_view text);
// Replaces a file: temporary name, fsync, rename, fsync of the folder.
void replace_file(const std::filesystem::path& path, std::string_view text);
// The same of what `write` puts out, which is not held in memory.
void replace_file(const std::filesystem::path& path,
                  const std::function<void(std::ostream&)>& write);
void sync_folder(const std::filesystem::path& folder);
// Makes the folder and those above it that are missing; the names of new ones are on disk.
void make_folders(const std::filesystem::path& folder);

// renameat2 with these flags in the working directory: 0, or -1 and errno.
using FlaggedRename = int (*)(const char* from, const char* to, unsigned flags);
int flagged_rename(const char* from, const char* to, unsigned flags);

// Renames `from` to `to`, atomically, and fsyncs the parent. When `to` exists the two exchange
// their names: the old folder is then called `from`, and the function returns true. (On file
// systems that cannot exchange names, such as NFS, the old folder is renamed first; a crash in
// between leaves it as .bad-<name>-<8 hex>, which no run deletes.)
bool publish_folder(const std::filesystem::path& from, const std::filesystem::path& to,
                    FlaggedRename rename = flagged_rename);

// Renames a folder within its file system, and fsyncs the parent. `to` must not exist.
void rename_folder(const std::filesystem::path& from, const std::filesystem::path& to);

// Renames a folder to .bad-<name>-<8 hex> beside it, a name that no run reads or deletes. Returns
// the new path.
std::filesystem::path put_aside(const std::filesystem::path& folder);

// Renames a folder to .trash-<name>-<8 hex> beside it, so that no run finds it, then deletes it.
// Never follows a symbolic link.
void discard_folder(const std::filesystem::path& folder);

}  // namespace fm::core
