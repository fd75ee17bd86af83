// A folder that is written under a temporary name and appears whole.
#pragma once

#include <filesystem>
#include <string>

namespace fm::core {

// The file that a draft's process holds; close() removes it.
inline constexpr const char* kDraftLock = "LOCK";

// PARENT/.tmp-NAME-<8 hex>, whose kDraftLock its process holds: the folder of a process that has
// died is known by a lock that nobody holds.
//
// Invariant: the folder is there until publish() or the destructor.
// Thread:    one.
// Lifetime:  what has its name at the end goes with the object.
class DraftFolder {
 public:
  // Makes PARENT too. Throws MachineError (26) with path and cause, as everything here.
  DraftFolder(const std::filesystem::path& parent, const std::string& name);
  DraftFolder(const DraftFolder&) = delete;
  DraftFolder& operator=(const DraftFolder&) = delete;
  ~DraftFolder();

  const std::filesystem::path& path() const { return path_; }
  // Its lock goes, and its names are on disk: it may get its name.
  void close();
  // close(), then gives the folder its name `to`, durably. Where there is one with `to`/`sign`
  // already, made by another process meanwhile, that one stays and this is discarded.
  void publish(const std::filesystem::path& to, const std::string& sign);

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

// Whether a process holds the lock of a draft: a folder's, or that of a file (OutputFile).
bool is_held(const std::filesystem::path& draft);

// Removes what dead processes left in `parent`: folders and files .tmp-NAME...-<8 hex> whose lock
// nobody holds, and without a lock those that are ten minutes old. What cannot be removed stays.
void sweep_drafts(const std::filesystem::path& parent, const std::string& name);

}  // namespace fm::core
