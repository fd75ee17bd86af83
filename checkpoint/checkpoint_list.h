// The checkpoints below an output directory, by name only.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fm::checkpoint {

struct ListedCheckpoint {
  std::filesystem::path folder;
  std::int64_t step = 0;
};

std::string tag_of_step(std::int64_t step);  // "global_step5"
// Folders named by tag_of_step (exactly; symbolic links left out), newest step first. Says nothing
// about their content. Empty when the directory does not exist.
std::vector<ListedCheckpoint> list_checkpoints(const std::filesystem::path& output_dir);
// Whether a folder was meant to be a checkpoint of ours: a manifest, tensors or a state file.
bool looks_like_checkpoint(const std::filesystem::path& folder);
// Checkpoints that were found damaged and put aside (.bad-global_stepN-*).
bool has_quarantined(const std::filesystem::path& output_dir);

// Deletes complete checkpoints but the newest `keep_last`, never `current`. Incomplete ones are
// neither counted nor touched, symbolic links never followed.
void prune_checkpoints(const std::filesystem::path& output_dir, int keep_last,
                       std::int64_t current);

}  // namespace fm::checkpoint
