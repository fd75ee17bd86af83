// The checkpoints below an output directory, by name only.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace fm::checkpoint {

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
// Checkpoints that were found damaged and put aside (.bad-global_stepN-*).
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

}  // namespace fm::checkpoint
