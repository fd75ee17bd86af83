#include "optim/loss_scaler.h"

#include <algorithm>

#include "core/check.h"

namespace fm::optim {
namespace {

constexpr double kFactor = 2.0;

bool lowers(const LossScaleOptions& options, const LossScaleState& state) {
  return options.hysteresis == 1 || state.hysteresis == 1;
}

}  // namespace

LossScaleState first_state(const LossScaleOptions& options) {
  return {.scale = options.fixed > 0.0 ? options.fixed : options.first,
          .hysteresis = options.hysteresis};
}

LossScaleState next_state(const LossScaleOptions& options, LossScaleState state, bool overflow) {
  if (options.fixed > 0.0) return state;
  FM_CHECK(options.window >= 1, "a dynamic scale doubles behind a window of ", options.window,
           " steps");
  if (overflow) {
    if (lowers(options, state)) {
      state.scale = std::max(state.scale / kFactor, options.least);
    } else {
      --state.hysteresis;
    }
    state.last_overflow = state.steps;
  } else {
    if (options.refills_when_clean) state.hysteresis = options.hysteresis;
    const std::int64_t clean = state.steps - state.last_overflow - 1;
    if (clean > 0 && clean % options.window == 0) {
      state.hysteresis = options.hysteresis;
      state.scale *= kFactor;
    }
  }
  ++state.steps;
  return state;
}

bool is_at_its_end(const LossScaleOptions& options, const LossScaleState& state) {
  return options.fixed == 0.0 && options.ends_at_least && state.scale == options.least &&
         lowers(options, state);
}

std::string describe(const LossScaleOptions& options) {
  if (options.fixed > 0.0) return core::concat(options.fixed);
  return core::concat("dynamic from ", options.first, ", window ", options.window, ", hysteresis ",
                      options.hysteresis);
}

}  // namespace fm::optim
