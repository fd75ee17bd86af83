// The loss scale of an fp16 run: a factor before backward, so that small gradients stay above
// fp16's smallest number. It follows overflows as DeepSpeed's does (runtime/fp16/loss_scaler.py,
// and fused_optimizer.py for ZeRO 0), with one difference: gradients are always divided by the
// scale that they were multiplied with.
#pragma once

#include <cstdint>
#include <string>

namespace fm::optim {

struct LossScaleOptions {
  double fixed = 0.0;  // 0: dynamic
  double first = 65536.0;
  std::int64_t window = 1000;       // steps without overflow until the scale doubles
  std::int64_t hysteresis = 2;      // overflows until it halves
  bool refills_when_clean = false;  // hysteresis begins anew with every step without overflow
  double least = 1.0;
  // At the least scale an overflow ends the run; ZeRO 0 stays there.
  bool ends_at_least = true;
};

struct LossScaleState {
  double scale = 1.0;
  std::int64_t steps = 0;
  std::int64_t last_overflow = -1;  // counted from 0
  std::int64_t hysteresis = 0;      // overflows that are left
};

LossScaleState first_state(const LossScaleOptions& options);

// Behind a step that was made with `state`. A fixed scale never changes.
LossScaleState next_state(const LossScaleOptions& options, LossScaleState state, bool overflow);

// An overflow can do no more than end the run.
bool is_at_its_end(const LossScaleOptions& options, const LossScaleState& state);

// "dynamic from 65536, window 1000, hysteresis 2"; a fixed one: its number
std::string describe(const LossScaleOptions& options);

}  // namespace fm::optim
