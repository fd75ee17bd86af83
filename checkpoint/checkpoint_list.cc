#include "checkpoint/checkpoint_list.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "checkpoint/agree.h"
#include "checkpoint/durable_file.h"
#include "checkpoint/manifest.h"
#include "core/check.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "global_step";
constexpr std::string_view kQuarantine = ".bad-global_step";

std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  fs::directory_iterator at(folder, error);
  while (!error && at != fs::directory_iterator()) {
    entries.push_back(*at);
    at.increment(error);
  }
  return entries;
}

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stopped, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (error != std::errc() || stopped != end || step < 0) return std::nullopt;
  if (tag_of_step(step) != name) return std::nullopt;  // leading zeros: not written by us
  return step;
}

}  // namespace

std::string tag_of_step(std::int64_t step) { return core::concat(kPrefix, step); }

std::vector<ListedCheckpoint> list_checkpoints(const fs::path& output_dir) {
  std::vector<ListedCheckpoint> found;
  for (const fs::directory_entry& entry : entries_of(output_dir)) {
    std::error_code error;
    if (!fs::is_directory(entry.symlink_status(error))) continue;
    const std::optional<std::int64_t> step = step_of(entry.path().filename().string());
    if (step) found.push_back({entry.path(), *step});
  }
  std::sort(found.begin(), found.end(),
            [](const ListedCheckpoint& a, const ListedCheckpoint& b) { return a.step > b.step; });
  return found;
}

bool looks_like_checkpoint(const fs::path& folder) {
  const std::vector<fs::directory_entry> entries = entries_of(folder);
  return std::any_of(entries.begin(), entries.end(), [](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    return name == kManifestName || name == kStateName || name.ends_with(".safetensors");
  });
}

bool has_quarantined(const fs::path& output_dir) {
  const std::vector<fs::directory_entry> entries = entries_of(output_dir);
  return std::any_of(entries.begin(), entries.end(), [](const fs::directory_entry& entry) {
    return entry.path().filename().string().starts_with(kQuarantine);
  });
}

void prune_checkpoints(const fs::path& output_dir, int keep_last, std::int64_t current) {
  int complete = 0;
  for (const ListedCheckpoint& listed : list_checkpoints(output_dir)) {
    if (!attempt([&] { open_manifest(listed.folder); }).empty()) continue;
    ++complete;
    if (complete > keep_last && listed.step != current) discard_folder(listed.folder);
  }
}

}  // namespace fm::checkpoint
