#include "checkpoint/lineage.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "checkpoint/agree.h"
#include "checkpoint/checkpoint_list.h"
#include "checkpoint/durable_file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/train_checkpoint.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kAnyStep = std::numeric_limits<std::int64_t>::max();

struct Member {
  Lineage lineage;
  std::int64_t step = 0;
  bool named_by_latest = false;
};

std::string latest_tag(const fs::path& output_dir) {
  std::string tag;
  attempt([&] { tag = read_text(output_dir / "latest"); });  // no hint is no error
  while (tag.ends_with('\n')) tag.pop_back();
  return tag;
}

std::optional<Manifest> manifest_in(const fs::path& folder) {
  std::optional<Manifest> manifest;
  const fs::path path = folder / kManifestName;
  attempt([&] { manifest = parse_manifest(read_text(path), path.string()); });
  return manifest;
}

std::vector<Member> members_of(const fs::path& output_dir, const std::string& latest) {
  std::vector<Member> members;
  const auto add = [&](const fs::path& folder) {
    const std::optional<Manifest> manifest = manifest_in(folder);
    if (!manifest) return;
    members.push_back({manifest->lineage, manifest->step, folder.filename() == latest});
  };
  for (const ListedCheckpoint& listed : list_checkpoints(output_dir)) add(listed.folder);
  for (const fs::path& folder : list_quarantined(output_dir)) add(folder);
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
  const std::optional<Manifest> manifest = manifest_in(checkpoint);
  if (!manifest) return std::nullopt;
  return manifest->lineage;
}

Lineage new_run(const fs::path& output_dir) {
  Lineage lineage = {.run = random_tag() + random_tag(), .parent_run = {}, .parent_tag = {}};
  for (const Member& member : members_of(output_dir, "")) {
    lineage.number = std::max(lineage.number, member.lineage.number);
  }
  ++lineage.number;
  return lineage;
}

RunLine::RunLine(const fs::path& output_dir) {
  const std::string latest = latest_tag(output_dir);
  const std::vector<Member> members = members_of(output_dir, latest);
  const auto top =
      std::max_element(members.begin(), members.end(), [](const Member& a, const Member& b) {
        return std::tuple(a.lineage.number, a.named_by_latest, a.step) <
               std::tuple(b.lineage.number, b.named_by_latest, b.step);
      });
  if (top == members.end()) return;
  Lineage at = top->lineage;
  std::int64_t last_step = last_step_of(output_dir, latest);
  const auto known = [this](const std::string& run) {  // a circle of parents ends here
    return std::any_of(parts_.begin(), parts_.end(),
                       [&](const Part& part) { return part.run == run; });
  };
  while (!known(at.run)) {
    parts_.push_back({at.run, last_step});
    const std::optional<std::int64_t> branch = step_of_tag(at.parent_tag);
    if (!branch) return;
    last_step = std::min(last_step, *branch);
    const std::string parent = at.parent_run;
    const auto of_parent = std::find_if(members.begin(), members.end(), [&](const Member& member) {
      return member.lineage.run == parent;
    });
    if (of_parent == members.end()) return;
    at = of_parent->lineage;
  }
}

bool RunLine::holds(const Lineage& lineage, std::int64_t step) const {
  return std::any_of(parts_.begin(), parts_.end(), [&](const Part& part) {
    return part.run == lineage.run && step <= part.last_step;
  });
}

std::string name_latest(const fs::path& output_dir, std::int64_t step) {
  const std::string tag = tag_of_step(step);
  if (latest_tag(output_dir) == tag) return "";
  return attempt([&] { replace_file(output_dir / "latest", tag); });
}

}  // namespace fm::checkpoint
