// What a start resumes from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/lineage.h"
#include "comm/communicator.h"

namespace fm::checkpoint {

enum class Resume : std::uint8_t { kAuto, kMust, kNever, kPath };

struct FoundCheckpoint {
  std::filesystem::path folder;
  std::int64_t step = 0;
  std::string state_json;
  // Of rank 0 only: the run that goes on from it, and, of its manifest, how long its save took; the
  // newest step that its run has, damaged ones included; what a person should know about the
  // others, one line each.
  Lineage lineage = {};
  std::int64_t save_ms = 0;
  std::int64_t newest = 0;
  std::vector<std::string> notes = {};
};

// Collective: all ranks agree. kAuto: the newest valid one of the run that counts below output_dir
// (checkpoint/lineage.h) or nothing; when something is there and none of it is valid, MachineError
// (12). kMust: (12) when there is none. kPath: `path` is a checkpoint folder or an output
// directory. (26) where a disk does not let one be read: an older one is not taken in its place.
std::optional<FoundCheckpoint> find_checkpoint(const std::filesystem::path& output_dir,
                                               Resume resume, const std::filesystem::path& path,
                                               comm::Communicator& world);

// Collective. The run that this start begins, or that it carries on: `found` is what it resumes
// from, null when it is fresh. Of rank 0; the others get an empty one.
// `jobs`: of the launchers of this start.
Lineage lineage_of_start(const std::filesystem::path& output_dir, Resume resume,
                         const FoundCheckpoint* found, comm::Communicator& world,
                         const std::vector<std::string>& jobs = {});

// Collective. Whether a run that one of the jobs `restarted` began counts below output_dir, by the
// same `resume`, kNever or kPath: a launcher starts those again, and the run goes on.
bool has_begun(const std::filesystem::path& output_dir, Resume resume,
               const std::vector<std::string>& restarted, comm::Communicator& world);

// Collective. Renames a checkpoint that load_checkpoint refused to .bad-<tag>-<8 hex>, so that
// find_checkpoint offers the next older one (and never a fresh start in its place).
void quarantine_checkpoint(const FoundCheckpoint& found, comm::Communicator& world);

}  // namespace fm::checkpoint
