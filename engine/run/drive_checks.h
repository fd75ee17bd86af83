// What is wrong with drives that state shall sleep on, said before anything is allocated.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "engine/options.h"
#include "engine/plan/run_plan.h"
#include "machine/limits.h"
#include "model/opened_model.h"

namespace fm::engine {

// Collective: make_fitting_plan, without slots that saves read (StateRules::save_slots) where the
// drives of some host, or checkpoints beside them, would have no room then.
RunPlan make_plan_on_drives(const TrainOptions& options, const model::OpenedModel& opened,
                            comm::Communicator& world,
                            const std::vector<machine::MemoryLimit>& memory);

// Collective. Notes about the drives of this rank's host. Throws MachineError (26), the same on
// every rank, where a drive of any host has no room, or cannot be written to.
std::vector<std::string> check_drives(const TrainOptions& options, const RunPlan& plan,
                                      comm::Communicator& world);

}  // namespace fm::engine
