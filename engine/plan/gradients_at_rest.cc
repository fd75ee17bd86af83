#include "engine/plan/gradients_at_rest.h"

#include <algorithm>

#include "engine/plan/tiers_of_run.h"

namespace fm::engine {
namespace {

// Whether all that an update changes has a slot for the old value.
bool can_take_back(const TrainOptions& options, const RunShape& run) {
  return run.params_sleep && options.offload.params_in_host == 0 &&
         options.offload.optimizer == core::Tier::kNvme;
}

}  // namespace

pipeline::GradientRing gradient_ring_of(const TrainOptions& options, const RunShape& run,
                                        const pipeline::ProgramRules& rules,
                                        const std::vector<pipeline::Program>& programs) {
  // Who has room for parameters has room for gradients, but for those who chose the order.
  const bool unit_major = unit_order_of(options) == pipeline::UnitOrder::kUnitMajor;
  if (!run.params_sleep && !unit_major) return {};
  const RunTiers sleep = tiers_of_run(options, run.params_sleep);
  if (sleep.tiers.moments != core::Tier::kNvme || rules.validates) return {};
  if (options.device.kind != DeviceKind::kCpu) return {};  // where all of them stay
  if (!options.dump_gradients.empty()) return {};  // all of them are looked at behind the step
  const bool fits = std::ranges::all_of(programs, [&](const pipeline::Program& program) {
    return pipeline::fits_ring(program, sleep.awake, rules.units);
  });
  if (!fits) return {};
  const bool scaled = options.element == core::DType::kF16;
  const bool early = options.gradient_clipping == 0.0 && !scaled && can_take_back(options, run);
  // Elsewhere masters are read instead; what travels narrow is not what the owner has.
  const bool exact =
      options.element == core::DType::kF32 && run.between.weights == comm::Travel::kWhole;
  const bool in_slots = std::ranges::all_of(programs, [&](const pipeline::Program& program) {
    return pipeline::may_take_from_slots(program, rules.units);
  });
  return {.places = sleep.awake,
          .rests = !early,
          .updates_early = early,
          .takes_from_slots = early && exact && in_slots};
}

}  // namespace fm::engine
