// The checkpoints below an output directory, and which of them belong together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fm::checkpoint {

// The checkpoints below an output directory, by name only.
struct ListedCheckpoint {
  std::filesystem::path folder;
  std::int64_t step = 0;
};

std::string tag_of_step(std::int64_t step);                       // "global_step5"
std::optional<std::int64_t> step_of_tag(const std::string& tag);  // exactly what tag_of_step makes
// Entries named by tag_of_step (symbolic links left out), newest step first. Says nothing about
// their content. Empty when the directory does not exist; MachineError (26) when it cannot be read.
std::vector<ListedCheckpoint> list_checkpoints(const std::filesystem::path& output_dir);
// Whether this was meant to be a checkpoint of ours: a manifest, tensors or a state file, or
// something that cannot be read.
bool looks_like_checkpoint(const std::filesystem::path& folder);
// Checkpoints that were found damaged and put aside (.bad-global_stepN-*), or kept when another run
// saved their step (global_stepN-of-*).
std::vector<std::filesystem::path> list_quarantined(const std::filesystem::path& output_dir);

struct PruneRequest {
  std::filesystem::path output_dir;
  std::string run;                   // Lineage::run: no other run is touched
  std::vector<std::int64_t> spared;  // steps that stay whatever their age
  int keep_last = 1;
};
// Deletes complete checkpoints of the run but the newest `keep_last`. Incomplete ones are neither
// counted nor touched, symbolic links never followed.
void prune_checkpoints(const PruneRequest& request);

// Which checkpoints of a folder belong together.
//
// A run begins with a fresh start or with one that goes back (--resume PATH), and lives on over
// every automatic resume. Each of its manifests carries its random id, its number (1 + the highest
// known in output_dir when it began) and its parent: the checkpoint it went back to. Checkpoints
// of older versions carry none of it: they are one run, without an id and with number 0.
//
// - The run with the highest number counts. Every manifest that can be read has a say, those of
//   damaged and put aside checkpoints too. Two with one number (somebody copied a folder): the one
//   that `latest` names.
// - Its line is what --resume auto and must may use: its own checkpoints, then those of its
//   parent's run up to the parent, and so on.
// - When the checkpoint that `latest` names has no readable manifest nobody knows its run: then
//   none of a later step counts.
// - A start that falls back to a checkpoint of its parent goes on as the run that counts.
// - A start that its launcher repeats goes on with the run that its job began (`jobs`), wherever
//   --resume sent the first one.
// - Pruning deletes checkpoints of its own run only.

struct Lineage {
  std::string run;          // random, hexadecimal
  std::int64_t number = 0;  // of the run in its output_dir
  std::string parent_run;   // both empty: begun from nothing
  std::string parent_tag;
  std::vector<std::string> jobs = {};  // of the launchers that began it, as hash_of_job makes them
  bool operator==(const Lineage&) const = default;
};

// A run that begins now below `output_dir`. Reads every manifest there.
Lineage new_run(const std::filesystem::path& output_dir);
// 16 hexadecimal digits for what a launcher or scheduler calls a job.
std::string hash_of_job(std::string_view name);
// Nothing when the folder has no readable manifest.
std::optional<Lineage> lineage_of(const std::filesystem::path& checkpoint);

// The checkpoints that a resume may use.
class RunLine {
 public:
  explicit RunLine(const std::filesystem::path& output_dir);
  bool holds(const Lineage& lineage, std::int64_t step) const;
  // The run that counts; nothing where no manifest was read.
  const std::optional<Lineage>& run() const { return run_; }
  // Throws MachineError (26) where a manifest could not be read, so that another run may count.
  void check_readable() const;

 private:
  struct RunPart {
    std::string run;
    std::int64_t last_step = 0;
  };
  std::optional<Lineage> run_;
  std::vector<RunPart> parts_;
  std::string unread_;  // why; "": all could be read
};

// `latest` names this step, also where a start that was killed before it was written anew left
// another one there. Returns what went wrong, or "".
std::string name_latest(const std::filesystem::path& output_dir, std::int64_t step);

}  // namespace fm::checkpoint
