// What Hugging Face's Trainer fills into a DeepSpeed JSON that leaves values to it
// (transformers/integrations/deepspeed.py), from its flags or its defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/deepspeed/ds_check.h"
#include "engine/options.h"

namespace fm::cli {

// Flags of the Trainer whose values the JSON may hold too; none: not given.
struct TrainerArguments {
  std::optional<double> learning_rate, weight_decay, adam_beta1, adam_beta2, adam_epsilon,
      max_grad_norm, warmup;                 // steps, or below 1 a share of them
  const char* warmup_flag = "warmup_steps";  // that said it
  std::optional<std::int64_t> per_device_train_batch_size, gradient_accumulation_steps,
      logging_steps;
  std::optional<bool> bf16, fp16;
  std::string lr_scheduler_type, lr_scheduler_kwargs;  // "": not given
  std::optional<core::NoDecay> no_decay;               // ours: the Trainer has its groups in code

  bool any() const;
  // Of so many steps; rounded up where `warmup` is a share.
  std::int64_t warmup_steps(std::int64_t train_steps) const;
};

// What is the Trainer's where the JSON has none of its own.
struct TrainersShare {
  bool schedule = false;   // a flag was given, or a value was left to the Trainer
  bool optimizer = false;  // with its groups: norms and biases do not decay
};

// Replaces "auto" in `root`, adds an optimizer where there is none and what flags give. A flag and
// a value that disagree are a refusal that shows both.
TrainersShare fill_from_trainer(const TrainerArguments& trainer, std::int64_t train_steps,
                                JsonTree& root, Findings& findings);

// The Trainer's own schedule: --lr_scheduler_type (linear), --warmup_steps, --lr_scheduler_kwargs.
// Throws UserError (10).
void apply_trainer_schedule(const TrainerArguments& trainer, Findings& findings,
                            engine::TrainOptions& options);

// FMEngine's lr-decay-style, warmup and min_lr where the JSON has no scheduler and no flag says
// more: the Trainer's schedule of that form. False where they do not decide, which is noted. Throws
// UserError (10).
bool apply_decay_style(const JsonView& settings, const TrainerArguments& trainer,
                       Findings& findings, engine::TrainOptions& options);

}  // namespace fm::cli
