// What a step is asked for, and what it comes to.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/options.h"
#include "optim/optimizer.h"

namespace fm::engine {

// What the step needs beside the plan.
struct StepRequest {
  std::int64_t step = 1;              // for fault points and dropout
  optim::UpdateScalars scalars = {};  // learning rate and update count; the scale is set by norm
  double gradient_clipping = kGradientClipping;  // 0: off
  LossReduction loss_reduction = LossReduction::kToken;
  double loss_scale = 1.0;  // gradients carry it until the update
  std::uint64_t seed = 0;   // of dropout
  bool apply = true;        // false: stop before the update (gradients are looked at)
  // The update does not wait for the norm of all pipe ranks: validate_step, with the rows of the
  // next step, returns the final result.
  bool speculative = false;
  // Of a speculative step: whether this rank was asked to stop (by a signal), which all ranks shall
  // hear; called at its end.
  std::function<bool()> stop_requested = {};
};

// The same on every rank after the step.
struct StepResult {
  double loss = 0.0;       // mean over the step's counted tokens (or mean of means)
  double loss_sum = 0.0;   // evaluation: sum over this program's counted tokens
  std::int64_t valid = 0;  // labels that counted
  double grad_norm = 0.0;  // before clipping, without the loss scale
  // Loss or gradient was not finite, or in fp16 beyond what that holds: nothing was changed.
  bool skipped = false;
  bool clipped = false;
  // Of a speculative step: its update, and what followed from it, was undone and done again.
  bool redone = false;
  bool stop_requested = false;  // on some rank
};

// Sums over pipe ranks: over those so far, in a speculative step, or over all.
struct StepSums {
  double squared = 0.0;                // of the gradients
  double loss_sum = 0.0, valid = 0.0;  // of the head's rank
  double overflows = 0.0;              // 0: none
  double stop_requests = 0.0;          // 0: none
  double deferred_updates = 0.0;       // pipe ranks that update when all sums are known
};

// Computes loss, norm and skip flag; returns the gradient scale.
float finalize_step(const StepRequest& request, const StepSums& sums, StepResult& result);

}  // namespace fm::engine
