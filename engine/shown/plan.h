// What a run would do, for any number of ranks, without starting one: batch arithmetic, optimizer,
// what was noted about the configuration, rank map, programs, predicted bytes per memory account,
// bytes on the wire, bubble.
#pragma once

#include <string>
#include <vector>

#include "engine/options.h"
#include "engine/plan/run_plan.h"
#include "engine/shown/tier_lines.h"
#include "engine/shown/wrapped_text.h"
#include "machine/limits.h"
#include "model/opened_model.h"

namespace fm::engine {

// Each host of options.ranks_per_host ranks.
struct PlanHost {
  std::vector<machine::MemoryLimit> memory = {};
  int cores = 0;  // 0: nothing is said of the time
  // Of each rank, for options.device.kind kCuda: memory is its card's.
  std::string card = {};       // "": not known, and nothing is said of the time
  int columns = kFileColumns;  // that programs are wrapped at
  PlanDrives drives = {};
};

// `opened`: of the same options (open_run_model). Both throw UserError as training would, but for a
// plan that does not fit: that is a line of the plan.
std::string plan_text(const TrainOptions& options, const model::OpenedModel& opened,
                      const WorldShape& world, const PlanHost& host = {});
std::string plan_json(const TrainOptions& options, const model::OpenedModel& opened,
                      const WorldShape& world, const PlanHost& host = {});
// What is predicted of the pipe, for a picture (engine/plan/pipe_prediction.h).
std::string plan_prediction(const TrainOptions& options, const model::OpenedModel& opened,
                            const WorldShape& world, const PlanHost& host);
// The schedule of the plan as pipeline/schedule_csv.h describes it.
std::string plan_csv(const TrainOptions& options, const model::OpenedModel& opened,
                     const WorldShape& world, const PlanHost& host, pipeline::CsvForm form);

// The same of a schedule alone, without a model (engine/plan/schedule_account.h).
std::string study_text(const TrainOptions& options, int micros);
std::string study_json(const TrainOptions& options, int micros);
std::string study_prediction(const TrainOptions& options, int micros);
std::string study_csv(const TrainOptions& options, int micros, pipeline::CsvForm form);

}  // namespace fm::engine
