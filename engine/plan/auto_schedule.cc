#include "engine/plan/auto_schedule.h"

#include <algorithm>

#include "core/check.h"
#include "engine/plan/plan_simulation.h"

namespace fm::engine {
namespace {

struct Candidate {
  const pipeline::ScheduleRow* schedule = nullptr;
  bool fits = false;
  double makespan = 0.0;
  double kept = 0.0;  // micro-batches, of the fullest rank

  // Times that differ by rounding are equal.
  bool better_than(const Candidate& other) const {
    if (fits != other.fits) return fits;
    return fits ? makespan < other.makespan * (1.0 - 1e-9) : kept < other.kept;
  }
};

}  // namespace

TrainOptions with_schedule(const TrainOptions& options, const model::Model& model,
                           const WorldShape& world,
                           const std::function<bool(const RunPlan&)>& fits) {
  TrainOptions tried = options;
  tried.auto_schedule = false;
  tried.schedule_chosen = tried.schedule_chosen || options.auto_schedule;
  if (!options.auto_schedule) return tried;
  std::optional<Candidate> best;
  std::string refusal;
  for (const pipeline::ScheduleRow& row : pipeline::all_schedules()) {
    if (row.units == pipeline::UnitOrder::kUnitMajor) continue;  // for weights that travel
    tried.schedule = &row;
    try {
      const RunPlan plan = make_run_plan(tried, model, world);
      const Candidate candidate{&row, fits(plan), simulate_plan(plan).makespan,
                                std::ranges::max(plan.kept_micros())};
      if (!best || candidate.better_than(*best)) best = candidate;
    } catch (const core::UserError& error) {
      if (refusal.empty()) refusal = error.what();
    }
  }
  FM_USER_CHECK(best,
                "--schedule auto finds no schedule for this shape; the first refusal: ", refusal);
  tried.schedule = best->schedule;
  return tried;
}

}  // namespace fm::engine
