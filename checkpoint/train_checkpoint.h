// Crash-safe training checkpoints: output_dir/global_stepN/ with MANIFEST.json, safetensors files
// and state.json; output_dir/latest names the newest. Nothing on disk is rank-shaped.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/lineage.h"
#include "checkpoint/tensor_files.h"
#include "comm/communicator.h"
#include "core/check.h"

namespace fm::checkpoint {

// Exclusive use of an output directory by one run, held by rank 0 until destroyed.
// Throws MachineError (13) that prints the holder.
class OutputLock {
 public:
  explicit OutputLock(const std::filesystem::path& output_dir);
  OutputLock(OutputLock&&) noexcept;
  OutputLock& operator=(OutputLock&&) = delete;
  ~OutputLock();

  // Makes and locks the file again where it was deleted or replaced, with its folder if need be:
  // what was done, for a person to read, or "". Throws as the constructor does.
  std::string renew();
  // Where the folder has left its file system, because that was unmounted or another was mounted
  // over it: that nothing may be written there, for a person to read. Else "".
  std::string moved() const;

 private:
  std::filesystem::path output_dir_;
  std::uint64_t device_ = 0;  // of the folder
  std::string holder_;        // what the file says
  int fd_ = -1;
};

struct SaveRequest {
  std::filesystem::path output_dir;
  std::int64_t step = 0;
  std::vector<FileSpec> files;            // the same on every rank
  std::vector<FileSlice> mine;            // what this rank writes
  std::string state_json;                 // rank 0's counts: step, samples, scheduler, seed, layout
  int keep_last = 0;                      // 0 keeps all; of this run only
  std::vector<std::int64_t> spared = {};  // steps that keep_last does not count out
  Lineage lineage = {};                   // rank 0's
};

struct SaveResult {
  bool durable = false;
  std::string problem;  // one message (rank and cause) when not durable
  core::Bytes bytes;
  double seconds = 0;
};

// Collective over `world`. A save that cannot be made (no space, not writable) is skipped on all
// ranks with one message; the previous checkpoint stays loadable at every moment.
SaveResult save_checkpoint(const SaveRequest& request, comm::Communicator& world);

enum class Resume : std::uint8_t { kAuto, kMust, kNever, kPath };

struct FoundCheckpoint {
  std::filesystem::path folder;
  std::int64_t step = 0;
  std::string state_json;
  // Of rank 0 only: of its manifest; the newest step that its run has, damaged ones included; what
  // a person should know about the others, one line each.
  Lineage lineage = {};
  std::int64_t newest = 0;
  std::vector<std::string> notes = {};
};

// Collective: all ranks agree. kAuto: the newest valid one of the run that counts below output_dir
// (checkpoint/lineage.h) or nothing; when something is there and none of it is valid, MachineError
// (12). kMust: (12) when there is none. kPath: `path` is a checkpoint folder or an output
// directory.
std::optional<FoundCheckpoint> find_checkpoint(const std::filesystem::path& output_dir,
                                               Resume resume, const std::filesystem::path& path,
                                               comm::Communicator& world);

// Collective. The run that this start begins, or that it carries on: `found` is what it resumes
// from, null when it is fresh. Of rank 0; the others get an empty one.
Lineage lineage_of_start(const std::filesystem::path& output_dir, Resume resume,
                         const FoundCheckpoint* found, comm::Communicator& world);

// `latest` names this step, also where a start that was killed before it was written anew left
// another one there. Returns what went wrong, or "".
std::string name_latest(const std::filesystem::path& output_dir, std::int64_t step);

// Collective. Renames a checkpoint that load_checkpoint refused to .bad-<tag>-<8 hex>, so that
// find_checkpoint offers the next older one (and never a fresh start in its place).
void quarantine_checkpoint(const FoundCheckpoint& found, comm::Communicator& world);

// The bytes are not those that were written; one of another model or a file that cannot be read is
// a plain MachineError.
class DamagedCheckpoint : public core::MachineError {
 public:
  using MachineError::MachineError;
};

// Fills this rank's slices with bytes that were checked against their CRC; every byte of the
// checkpoint is checked by some rank. DamagedCheckpoint (12), thrown on all ranks, names file,
// range, expected and found value; the slices are then filled in part.
void load_checkpoint(const FoundCheckpoint& found, const std::vector<FileSpec>& files,
                     const std::vector<FileSlice>& mine, comm::Communicator& world);

}  // namespace fm::checkpoint
