#include "optim/describe.h"

#include <algorithm>

#include "core/check.h"

namespace fm::optim {
namespace {

using core::concat;

std::string warmup(const SchedulerOptions& at, double first, double last) {
  return concat(at.warmup_type == WarmupType::kLog ? " (log) " : " (linear) ", first, " -> ", last,
                " over ", warmup_steps(at), " steps");
}

std::string schedule(const SchedulerOptions& at, double base_lr) {
  const double highest = highest_lr(at, base_lr);
  const auto end = [&](double lr) { return concat(" -> ", lr, " at step ", at.total_num_steps); };
  switch (at.kind) {
    case SchedulerKind::kConstant: return "constant lr";
    case SchedulerKind::kWarmup: return "WarmupLR" + warmup(at, at.warmup_min_lr, highest);
    case SchedulerKind::kWarmupDecay:
      return "WarmupDecayLR" + warmup(at, at.warmup_min_lr, highest) + end(at.warmup_min_lr);
    case SchedulerKind::kWarmupCosine:
      return "WarmupCosineLR" + warmup(at, at.warmup_min_ratio * base_lr, highest) +
             end(at.cos_min_ratio * base_lr);
  }
  return "";
}

}  // namespace

std::string describe(const OptimizerOptions& optimizer, const SchedulerOptions& scheduler,
                     double clipping) {
  return concat(describe(optimizer), ", weight decay ", optimizer.weight_decay, ", ",
                schedule(scheduler, optimizer.lr), ", ",
                clipping > 0.0 ? concat("clipping ", clipping) : "no clipping");
}

}  // namespace fm::optim
