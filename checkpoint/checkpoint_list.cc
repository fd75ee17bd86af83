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

// Nothing there is no entry; whatever else prevents the look is not the same as nothing.
std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  fs::directory_iterator at(folder, error);
  while (!error && at != fs::directory_iterator()) {
    entries.push_back(*at);
    at.increment(error);
  }
  FM_MACHINE_CHECK(!error || error == std::errc::no_such_file_or_directory,
                   core::ExitCode::kStorageFailed,
                   "the folder must be readable; correct its permissions, mount or disk (",
                   folder.string(), ": ", error.message(), ")");
  return entries;
}

}  // namespace

std::string tag_of_step(std::int64_t step) { return core::concat(kPrefix, step); }

std::optional<std::int64_t> step_of_tag(const std::string& tag) {
  if (!tag.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = tag.data() + tag.size();
  const auto [stopped, error] = std::from_chars(tag.data() + kPrefix.size(), end, step);
  if (error != std::errc() || stopped != end || step < 0) return std::nullopt;
  if (tag_of_step(step) != tag) return std::nullopt;  // leading zeros: not written by us
  return step;
}

std::vector<ListedCheckpoint> list_checkpoints(const fs::path& output_dir) {
  std::vector<ListedCheckpoint> found;
  for (const fs::directory_entry& entry : entries_of(output_dir)) {
    std::error_code error;  // what cannot be looked at is listed, and found damaged
    if (fs::is_symlink(entry.symlink_status(error))) continue;
    const std::optional<std::int64_t> step = step_of_tag(entry.path().filename().string());
    if (step) found.push_back({entry.path(), *step});
  }
  std::sort(found.begin(), found.end(),
            [](const ListedCheckpoint& a, const ListedCheckpoint& b) { return a.step > b.step; });
  return found;
}

bool looks_like_checkpoint(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  const std::string unreadable = attempt([&] { entries = entries_of(folder); });
  if (!unreadable.empty()) return true;
  return std::any_of(entries.begin(), entries.end(), [](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    return name == kManifestName || name == kStateName || name.ends_with(".safetensors");
  });
}

std::vector<fs::path> list_quarantined(const fs::path& output_dir) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : entries_of(output_dir)) {
    if (entry.path().filename().string().starts_with(kQuarantine)) found.push_back(entry.path());
  }
  return found;
}

void prune_checkpoints(const PruneRequest& request) {
  int complete = 0;
  for (const ListedCheckpoint& listed : list_checkpoints(request.output_dir)) {
    std::string run;
    const auto open = [&] { run = open_manifest(listed.folder).lineage.run; };
    if (!attempt(open).empty() || run != request.run) continue;
    ++complete;
    if (complete <= request.keep_last) continue;
    const auto& spared = request.spared;
    const bool stays = std::find(spared.begin(), spared.end(), listed.step) != spared.end();
    if (!stays) discard_folder(listed.folder);
  }
}

}  // namespace fm::checkpoint
