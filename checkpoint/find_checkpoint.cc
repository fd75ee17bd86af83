#include "checkpoint/find_checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "checkpoint/lineage.h"
#include "checkpoint/manifest.h"
#include "checkpoint/readable_file.h"
#include "comm/agree.h"
#include "core/check.h"
#include "core/files/durable_file.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr auto kNoCheckpoint = core::ExitCode::kNoCheckpoint;

void say_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) std::fprintf(stderr, "fmengine: %s\n", note.c_str());
}

FoundCheckpoint open_checkpoint(const fs::path& folder) {
  const Manifest manifest = open_manifest(folder);
  return {.folder = folder,
          .step = manifest.step,
          .state_json = read_text(folder / kStateName),
          .lineage = manifest.lineage,
          .save_ms = manifest.save_ms,
          .newest = manifest.step};
}

// A copy under another name must not pass for the newest.
FoundCheckpoint open_listed(const ListedCheckpoint& listed) {
  FoundCheckpoint found = open_checkpoint(listed.folder);
  FM_MACHINE_CHECK(found.step == listed.step, kNoCheckpoint, listed.folder.string(),
                   ": the folder must have the name of its step; rename it (it is step ",
                   found.step, ")");
  return found;
}

// Checkpoints that were looked at before the one that is taken.
struct Passed {
  std::int64_t newest = -1;        // step of the newest damaged one
  std::string damage;              // of the first damaged one
  std::vector<std::string> notes;  // one line each
};

std::string note_of_another_run(const ListedCheckpoint& listed) {
  return core::concat(listed.folder.string(),
                      " is of another run and left alone; resume from it by its path");
}

// The newest valid one of the line.
std::optional<FoundCheckpoint> newest_in_line(const fs::path& output_dir, Passed& passed) {
  const RunLine line(output_dir);
  line.check_readable();
  for (const ListedCheckpoint& listed : list_checkpoints(output_dir)) {
    if (!looks_like_checkpoint(listed.folder)) continue;
    const std::optional<Lineage> lineage = lineage_of(listed.folder);
    if (lineage && !line.holds(*lineage, listed.step)) {
      passed.notes.push_back(note_of_another_run(listed));
      continue;
    }
    passed.newest = std::max(passed.newest, listed.step);
    std::optional<FoundCheckpoint> found;
    const ReadFailure failure = attempt_read([&] { found = open_listed(listed); });
    if (found) {
      found->lineage = line.run().value_or(found->lineage);
      return found;
    }
    FM_MACHINE_CHECK(failure.code == kNoCheckpoint, failure.code, failure.problem);
    passed.notes.push_back("checkpoint passed over: " + failure.problem);
    if (passed.damage.empty()) passed.damage = failure.problem;
  }
  return std::nullopt;
}

// The newest valid checkpoint below `output_dir`.
// Throws MachineError (12) when there are checkpoints but none may be used.
std::optional<FoundCheckpoint> newest_valid(const fs::path& output_dir) {
  Passed passed;
  std::optional<FoundCheckpoint> found = newest_in_line(output_dir, passed);
  if (found) {
    found->newest = passed.newest;
    found->notes = std::move(passed.notes);
    return found;
  }
  say_notes(passed.notes);
  const bool others = passed.damage.empty() && !passed.notes.empty();
  if (others) passed.damage = passed.notes.front();
  const bool quarantined = passed.damage.empty() && !list_quarantined(output_dir).empty();
  if (quarantined) passed.damage = "only .bad-global_step* are left";
  FM_MACHINE_CHECK(
      passed.damage.empty(), kNoCheckpoint,
      "a loadable checkpoint is required where checkpoints are; restore one, name one with ",
      "--resume PATH, or start afresh with --resume never or another output_dir (",
      output_dir.string(), ": ", passed.damage, ")");
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
  ReadFailure mine;
  if (world.rank() == 0) mine = attempt_read([&] { found = find_here(output_dir, resume, path); });
  const std::string problem = comm::text_of_rank0(world, mine.problem);
  const std::int64_t code = comm::gather_numbers(world, static_cast<int>(mine.code))[0];
  FM_MACHINE_CHECK(problem.empty(), static_cast<core::ExitCode>(code), problem);
  const std::int64_t has = comm::gather_numbers(world, found ? 1 : 0)[0];
  if (has == 0) return std::nullopt;
  if (!found) found.emplace();
  found->folder = comm::text_of_rank0(world, found->folder.string());
  found->state_json = comm::text_of_rank0(world, found->state_json);
  found->step = comm::gather_numbers(world, found->step)[0];
  return found;
}

Lineage lineage_of_start(const fs::path& output_dir, Resume resume, const FoundCheckpoint* found,
                         comm::Communicator& world, const std::vector<std::string>& jobs) {
  const bool carries_on = found != nullptr && resume != Resume::kPath;
  if (carries_on) return found->lineage;
  Lineage lineage;
  std::string mine;
  if (world.rank() == 0) mine = comm::attempt([&] { lineage = new_run(output_dir); });
  const std::string problem = comm::text_of_rank0(world, mine);
  FM_MACHINE_CHECK(problem.empty(), core::ExitCode::kStorageFailed, problem);
  if (world.rank() == 0) lineage.jobs = jobs;
  if (found == nullptr || world.rank() != 0) return lineage;
  lineage.parent_run = found->lineage.run;
  lineage.parent_tag = tag_of_step(found->step);
  return lineage;
}

bool has_begun(const fs::path& output_dir, Resume resume, const std::vector<std::string>& restarted,
               comm::Communicator& world) {
  bool begun = false;
  ReadFailure mine;
  if (world.rank() == 0 && !restarted.empty()) {
    mine = attempt_read([&] {
      const RunLine line(output_dir);
      line.check_readable();
      if (!line.run()) return;
      const bool of_path = !line.run()->parent_tag.empty();
      const auto& jobs = line.run()->jobs;
      begun = of_path == (resume == Resume::kPath) &&
              std::ranges::find_first_of(jobs, restarted) != jobs.end();
    });
  }
  const std::string problem = comm::text_of_rank0(world, mine.problem);
  FM_MACHINE_CHECK(problem.empty(), core::ExitCode::kStorageFailed, problem);
  return comm::gather_numbers(world, begun ? 1 : 0)[0] != 0;
}

void quarantine_checkpoint(const FoundCheckpoint& found, comm::Communicator& world) {
  std::string mine;
  if (world.rank() == 0) {
    mine = comm::attempt([&] {
      const fs::path bad = core::put_aside(found.folder);
      std::fprintf(stderr, "fmengine: damaged checkpoint %s is put aside as %s\n",
                   found.folder.c_str(), bad.filename().c_str());
    });
  }
  const std::string problem = comm::text_of_rank0(world, mine);
  FM_MACHINE_CHECK(
      problem.empty(), core::ExitCode::kStorageFailed,
      "a damaged checkpoint must be put aside before an older one is used; rename it (", problem,
      ")");
}

}  // namespace fm::checkpoint
