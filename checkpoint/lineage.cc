#include "checkpoint/lineage.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>
#include <optional>
#include <span>
#include <tuple>

#include "checkpoint/manifest.h"
#include "checkpoint/readable_file.h"
#include "checkpoint/save_checkpoint.h"
#include "comm/agree.h"
#include "core/check.h"
#include "core/files/durable_file.h"
#include "core/sha256.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "global_step";
constexpr std::string_view kQuarantine = ".bad-global_step";
constexpr std::string_view kOfAnotherRun = "-of-";  // what SaveCourse keeps

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
  const std::string unreadable = comm::attempt([&] { entries = entries_of(folder); });
  if (!unreadable.empty()) return true;
  return std::any_of(entries.begin(), entries.end(), [](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    return name == kManifestName || name == kStateName || name.ends_with(".safetensors");
  });
}

std::vector<fs::path> list_quarantined(const fs::path& output_dir) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : entries_of(output_dir)) {
    const std::string name = entry.path().filename().string();
    const bool kept = name.starts_with(kPrefix) && name.find(kOfAnotherRun) != std::string::npos;
    if (kept || name.starts_with(kQuarantine)) found.push_back(entry.path());
  }
  return found;
}

void prune_checkpoints(const PruneRequest& request) {
  int complete = 0;
  for (const ListedCheckpoint& listed : list_checkpoints(request.output_dir)) {
    std::string run;
    const auto open = [&] { run = open_manifest(listed.folder).lineage.run; };
    if (!comm::attempt(open).empty() || run != request.run) continue;
    ++complete;
    if (complete <= request.keep_last) continue;
    const auto& spared = request.spared;
    const bool stays = std::find(spared.begin(), spared.end(), listed.step) != spared.end();
    if (!stays) core::discard_folder(listed.folder);
  }
}

namespace {

constexpr std::int64_t kAnyStep = std::numeric_limits<std::int64_t>::max();

struct LineageMember {
  Lineage lineage;
  std::int64_t step = 0;
  bool named_by_latest = false;
};

std::string latest_tag(const fs::path& output_dir) {
  std::string tag;
  comm::attempt([&] { tag = read_text(output_dir / "latest"); });  // no hint is no error
  while (tag.ends_with('\n')) tag.pop_back();
  return tag;
}

// `unread`: why a disk did not let it be read, if it did not.
std::optional<Manifest> manifest_in(const fs::path& folder, std::string& unread) {
  std::optional<Manifest> manifest;
  const fs::path path = folder / kManifestName;
  const ReadFailure failure =
      attempt_read([&] { manifest = parse_manifest(read_text(path), path.string()); });
  if (failure.code == core::ExitCode::kStorageFailed) unread = failure.problem;
  return manifest;
}

std::vector<LineageMember> members_of(const fs::path& output_dir, const std::string& latest,
                                      std::string& unread) {
  std::vector<LineageMember> members;
  const auto add = [&](const fs::path& folder, std::string& problem) {
    const std::optional<Manifest> manifest = manifest_in(folder, problem);
    if (!manifest) return;
    members.push_back({manifest->lineage, manifest->step, folder.filename() == latest});
  };
  for (const ListedCheckpoint& listed : list_checkpoints(output_dir)) add(listed.folder, unread);
  std::string ignored;  // what is put aside may lie on a bad block
  for (const fs::path& folder : list_quarantined(output_dir)) add(folder, ignored);
  return members;
}

// What is newer than a checkpoint of unknown run may be of another one.
std::int64_t last_step_of(const fs::path& output_dir, const std::string& latest) {
  const std::optional<std::int64_t> step = step_of_tag(latest);
  if (!step || !looks_like_checkpoint(output_dir / latest)) return kAnyStep;
  return lineage_of(output_dir / latest) ? kAnyStep : *step;
}

}  // namespace

std::optional<Lineage> lineage_of(const fs::path& checkpoint) {
  std::string unread;
  const std::optional<Manifest> manifest = manifest_in(checkpoint, unread);
  if (!manifest) return std::nullopt;
  return manifest->lineage;
}

std::string hash_of_job(std::string_view name) {
  const core::Digest digest = core::sha256(name);
  std::string text;
  for (const std::uint8_t byte : std::span(digest).first<8>()) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    text += digits;
  }
  return text;
}

Lineage new_run(const fs::path& output_dir) {
  Lineage lineage = {
      .run = core::random_tag() + core::random_tag(), .parent_run = {}, .parent_tag = {}};
  std::string unread;
  for (const LineageMember& member : members_of(output_dir, "", unread)) {
    lineage.number = std::max(lineage.number, member.lineage.number);
  }
  FM_MACHINE_CHECK(unread.empty(), core::ExitCode::kStorageFailed, unread);
  ++lineage.number;
  return lineage;
}

RunLine::RunLine(const fs::path& output_dir) {
  const std::string latest = latest_tag(output_dir);
  const std::vector<LineageMember> members = members_of(output_dir, latest, unread_);
  const auto top = std::max_element(
      members.begin(), members.end(), [](const LineageMember& a, const LineageMember& b) {
        return std::tuple(a.lineage.number, a.named_by_latest, a.step) <
               std::tuple(b.lineage.number, b.named_by_latest, b.step);
      });
  if (top == members.end()) return;
  run_ = top->lineage;
  Lineage at = top->lineage;
  std::int64_t last_step = last_step_of(output_dir, latest);
  const auto known = [this](const std::string& run) {  // a circle of parents ends here
    return std::any_of(parts_.begin(), parts_.end(),
                       [&](const RunPart& part) { return part.run == run; });
  };
  while (!known(at.run)) {
    parts_.push_back({at.run, last_step});
    const std::optional<std::int64_t> branch = step_of_tag(at.parent_tag);
    if (!branch) return;
    last_step = std::min(last_step, *branch);
    const std::string parent = at.parent_run;
    const auto of_parent =
        std::find_if(members.begin(), members.end(),
                     [&](const LineageMember& member) { return member.lineage.run == parent; });
    if (of_parent == members.end()) return;
    at = of_parent->lineage;
  }
}

void RunLine::check_readable() const {
  FM_MACHINE_CHECK(unread_.empty(), core::ExitCode::kStorageFailed, unread_);
}

bool RunLine::holds(const Lineage& lineage, std::int64_t step) const {
  return std::any_of(parts_.begin(), parts_.end(), [&](const RunPart& part) {
    return part.run == lineage.run && step <= part.last_step;
  });
}

std::string name_latest(const fs::path& output_dir, std::int64_t step) {
  const std::string tag = tag_of_step(step);
  if (latest_tag(output_dir) == tag) return "";
  return comm::attempt([&] { core::replace_file(output_dir / "latest", tag); });
}

}  // namespace fm::checkpoint
