#include <cstdio>
#include <nlohmann/json.hpp>

#include "checkpoint/agree.h"
#include "checkpoint/checkpoint_list.h"
#include "checkpoint/durable_file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/train_checkpoint.h"
#include "core/check.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr auto kNoCheckpoint = core::ExitCode::kNoCheckpoint;

FoundCheckpoint open_checkpoint(const fs::path& folder) {
  const Manifest manifest = open_manifest(folder);
  return {.folder = folder, .step = manifest.step, .state_json = read_text(folder / kStateName)};
}

// A copy under another name must not pass for the newest.
FoundCheckpoint open_listed(const ListedCheckpoint& listed) {
  FoundCheckpoint found = open_checkpoint(listed.folder);
  FM_MACHINE_CHECK(found.step == listed.step, kNoCheckpoint, listed.folder.string(),
                   ": the folder must have the name of its step (it is step ", found.step, ")");
  return found;
}

// The newest valid checkpoint below `output_dir`; what is passed over is said on stderr.
// Throws MachineError (12) when there are checkpoints but none is valid.
std::optional<FoundCheckpoint> newest_valid(const fs::path& output_dir) {
  std::string damaged;
  std::int64_t newest = -1;
  for (const ListedCheckpoint& listed : list_checkpoints(output_dir)) {
    if (!looks_like_checkpoint(listed.folder)) continue;
    newest = std::max(newest, listed.step);
    std::optional<FoundCheckpoint> found;
    const std::string problem = attempt([&] { found = open_listed(listed); });
    if (found) {
      if (newest != found->step) {
        std::fprintf(stderr, "fmengine: resuming from step %lld, %lld steps are lost\n",
                     static_cast<long long>(found->step),
                     static_cast<long long>(newest - found->step));
      }
      return found;
    }
    std::fprintf(stderr, "fmengine: checkpoint passed over: %s\n", problem.c_str());
    if (damaged.empty()) damaged = problem;
  }
  if (damaged.empty() && has_quarantined(output_dir)) damaged = "only .bad-global_step* are left";
  FM_MACHINE_CHECK(
      damaged.empty(), kNoCheckpoint,
      "a loadable checkpoint is required where checkpoints are; restore one, or start ",
      "afresh with --resume never or another output_dir (", output_dir.string(), ": ", damaged,
      ")");
  return std::nullopt;
}

std::optional<FoundCheckpoint> find_here(const fs::path& output_dir, Resume resume,
                                         const fs::path& path) {
  switch (resume) {
    case Resume::kNever: return std::nullopt;
    case Resume::kAuto: return newest_valid(output_dir);
    case Resume::kMust: break;
    case Resume::kPath: break;
  }
  const fs::path& where = resume == Resume::kPath ? path : output_dir;
  FM_MACHINE_CHECK(fs::is_directory(where), kNoCheckpoint,
                   "--resume needs a checkpoint to resume from; check the path (", where.string(),
                   " is no folder)");
  if (resume == Resume::kPath && looks_like_checkpoint(where)) return open_checkpoint(where);
  std::optional<FoundCheckpoint> found = newest_valid(where);
  FM_MACHINE_CHECK(
      found.has_value(), kNoCheckpoint,
      "--resume needs a checkpoint to resume from; check the path or use --resume auto (",
      "no global_step* in ", where.string(), ")");
  return found;
}

}  // namespace

std::optional<FoundCheckpoint> find_checkpoint(const fs::path& output_dir, Resume resume,
                                               const fs::path& path, comm::Communicator& world) {
  std::optional<FoundCheckpoint> found;
  std::string mine;
  if (world.rank() == 0) mine = attempt([&] { found = find_here(output_dir, resume, path); });
  const std::string problem = text_of_rank0(world, mine);
  FM_MACHINE_CHECK(problem.empty(), kNoCheckpoint, problem);
  const std::int64_t has = gather_numbers(world, found ? 1 : 0)[0];
  if (has == 0) return std::nullopt;
  if (!found) found.emplace();
  found->folder = text_of_rank0(world, found->folder.string());
  found->state_json = text_of_rank0(world, found->state_json);
  found->step = gather_numbers(world, found->step)[0];
  return found;
}

void quarantine_checkpoint(const FoundCheckpoint& found, comm::Communicator& world) {
  std::string mine;
  if (world.rank() == 0) {
    mine = attempt([&] {
      const fs::path parent = fs::absolute(found.folder).parent_path();
      const std::string bad =
          core::concat(".bad-", found.folder.filename().string(), "-", random_tag());
      std::fprintf(stderr, "fmengine: damaged checkpoint %s is put aside as %s\n",
                   found.folder.c_str(), bad.c_str());
      fs::rename(found.folder, parent / bad);
      sync_folder(parent);
    });
  }
  const std::string problem = text_of_rank0(world, mine);
  FM_MACHINE_CHECK(
      problem.empty(), core::ExitCode::kStorageFailed,
      "a damaged checkpoint must be put aside before an older one is used; rename it (", problem,
      ")");
}

}  // namespace fm::checkpoint
