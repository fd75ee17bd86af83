#include "optim/describe.h"

#include "core/check.h"

namespace fm::optim {
std::string describe(const OptimizerOptions& optimizer, const SchedulerOptions& scheduler,
                     double clipping) {
  using core::concat;
  return concat(describe(optimizer), ", weight decay ", optimizer.weight_decay, ", ",
                describe(scheduler, optimizer.lr), ", ",
                clipping > 0.0 ? concat("clipping ", clipping) : "no clipping");
}

}  // namespace fm::optim
