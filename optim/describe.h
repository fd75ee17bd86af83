// The update rule in one line, for the start banner and the plan.
#pragma once

#include <string>

#include "optim/lr_schedule.h"
#include "optim/optimizer.h"

namespace fm::optim {

// "AdamW (decoupled decay), lr 0.0003, betas 0.9 0.999, eps 1e-08, weight decay 0.1, WarmupLR (log)
// 0 -> 0.0003 over 20 steps, clipping 1". `clipping` 0 means none.
std::string describe(const OptimizerOptions& optimizer, const SchedulerOptions& scheduler,
                     double clipping);

}  // namespace fm::optim
