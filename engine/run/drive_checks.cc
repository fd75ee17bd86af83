#include "engine/run/drive_checks.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "comm/agree.h"
#include "core/check.h"
#include "engine/plan/tier_forecast.h"
#include "engine/run/run_text.h"
#include "offload/disk_store.h"
#include "zero/sleep_plan.h"

namespace fm::engine {
namespace {

using zero::Role;

struct Store {
  std::vector<std::string> folders;
  core::Bytes mine;
};

// The file systems of folders, or of those above them in which they will be made.
std::set<dev_t> devices_of(const std::vector<std::string>& folders) {
  std::set<dev_t> devices;
  for (const std::string& folder : folders) {
    std::error_code ignored;
    std::filesystem::path at = std::filesystem::absolute(folder, ignored);
    struct stat found {};
    while (::stat(at.c_str(), &found) != 0 && at.has_relative_path()) at = at.parent_path();
    devices.insert(found.st_dev);
  }
  return devices;
}

// Those that a rank opens. Each is asked for room by itself, but where both lie on the same file
// systems the second one counts for both.
std::vector<Store> stores_of(const OffloadOptions& offload, const zero::Layout& layout) {
  Store optimizer{offload.optimizer_paths,
                  zero::SleepPlan(layout, {Role::kMoment, Role::kMaster, Role::kGrads}).total()};
  Store params{offload.param_paths, zero::SleepPlan(layout, {Role::kParams}).total()};
  const bool together = devices_of(params.folders) == devices_of(optimizer.folders);
  if (together) params.mine += optimizer.mine;
  return {std::move(optimizer), std::move(params)};
}

}  // namespace

std::vector<std::string> check_drives(const TrainOptions& options, const RunPlan& plan,
                                      comm::Communicator& world) {
  const OffloadOptions& offload = options.offload;
  const bool files = offload.disk.method != offload::DiskOptions::Method::kMemory;
  if (!plan.state.rules.tiers.has(core::Tier::kNvme) || !files) return {};
  const int pipe_rank = plan.mesh.position_of(world.rank()).pipe_rank;
  const auto host = ranks_of_host(world);
  std::vector<std::string> notes;
  std::string problem;
  for (const auto& [folders, mine] : stores_of(offload, plan.layout(pipe_rank, 0))) {
    const std::vector<std::int64_t> all = comm::gather_numbers(*host, mine.count());
    const offload::DiskNeed need{
        .of_rank = core::Bytes(std::ranges::max(all)),
        .of_host = core::Bytes(std::accumulate(all.begin(), all.end(), std::int64_t{0})),
        .ring = tier_forecast(plan, pipe_rank).ring,
        .ranks = host->size()};
    const offload::DiskPlace place{.folders = {folders.begin(), folders.end()},
                                   .world_rank = world.rank()};
    if (folders.empty() || mine.count() == 0) continue;
    for (const auto& found : offload::disk_problems(place, offload.disk, need)) {
      const bool refused = found.weight == offload::DiskProblem::Weight::kRefused;
      if (!refused) notes.push_back(found.text);
      if (refused && problem.empty()) problem = found.text;
    }
  }
  problem = comm::first_problem(world, problem);
  FM_MACHINE_CHECK(problem.empty(), core::ExitCode::kStorageFailed, problem);
  return notes;
}

}  // namespace fm::engine
