#include "engine/run/drive_checks.h"

#include <algorithm>
#include <numeric>

#include "comm/agree.h"
#include "core/check.h"
#include "engine/plan/disk_need.h"
#include "engine/plan/memory_fit.h"
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

// Of the drives of this rank's host.
struct Looked {
  std::vector<std::string> notes;
  std::string problem;  // "": they will do; the same on every rank
  core::Bytes bytes;    // of all ranks of this host
};

// Collective.
Looked look_at_drives(const TrainOptions& options, const RunPlan& plan, comm::Communicator& world) {
  const OffloadOptions& offload = options.offload;
  const bool files = offload.disk.method != offload::DiskOptions::Method::kMemory;
  if (!plan.state.rules.tiers.has(core::Tier::kNvme) || !files) return {};
  const int pipe_rank = plan.mesh.position_of(world.rank()).pipe_rank;
  const auto host = ranks_of_host(world);
  Looked out;
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
    out.bytes = std::max(out.bytes, need.of_host);
    for (const auto& found : offload::disk_problems(place, offload.disk, need)) {
      const bool refused = found.weight == offload::DiskProblem::Weight::kRefused;
      if (!refused) out.notes.push_back(found.text);
      if (refused && out.problem.empty()) out.problem = found.text;
    }
  }
  out.problem = comm::first_problem(world, out.problem);
  return out;
}

}  // namespace

RunPlan make_plan_on_drives(const TrainOptions& options, const model::OpenedModel& opened,
                            comm::Communicator& world,
                            const std::vector<machine::MemoryLimit>& memory) {
  RunPlan plan = make_fitting_plan(options, opened, world, memory);
  if (plan.state.rules.save_slots == 0) return plan;
  const Looked looked = look_at_drives(options, plan, world);
  const bool fits = looked.problem.empty() && leaves_room_for_saves(options, opened, looked.bytes);
  if (comm::first_problem(world, fits ? "" : "no room").empty()) return plan;
  TrainOptions waiting = options;
  waiting.offload.save_slots = false;
  return make_fitting_plan(waiting, opened, world, memory);
}

std::vector<std::string> check_drives(const TrainOptions& options, const RunPlan& plan,
                                      comm::Communicator& world) {
  Looked looked = look_at_drives(options, plan, world);
  FM_MACHINE_CHECK(looked.problem.empty(), core::ExitCode::kStorageFailed, looked.problem);
  return std::move(looked.notes);
}

}  // namespace fm::engine
