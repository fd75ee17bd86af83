// A training run from options to exit code.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "engine/options.h"
#include "engine/run/signals.h"
#include "engine/shown/run_context.h"
#include "model/opened_model.h"

namespace fm::engine {

// Collective. Where a launcher starts the jobs `restarted` again and one of them has saved a run,
// --resume never or PATH were for their first start: `options` go on with that run, and a note says
// so.
void go_on_with_job(TrainOptions& options, const std::vector<std::string>& restarted,
                    comm::Communicator& world);

// Collective over `world`. `opened`: of the same options (open_run_model). Returns the exit code:
// 0, or 75 after SIGTERM with the state saved. Throws core::Error.
int train(const TrainOptions& options, const model::OpenedModel& opened, comm::Communicator& world,
          const RunContext& context);

}  // namespace fm::engine
