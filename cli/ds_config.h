// A DeepSpeed JSON becomes typed options, or one helpful refusal.
#pragma once

#include <span>
#include <string>

#include "cli/ds_check.h"
#include "cli/hjson.h"
#include "engine/options.h"

namespace fm::cli {

// Fills batch, ZeRO stage, order of sums, recomputation, optimizer, scheduler, clipping and notes
// of `options`; "auto" is resolved from DeepSpeed's defaults and options.train_steps, as Hugging
// Face's Trainer does from its arguments. Throws UserError (10).
void apply_ds_config(const ConfigText& config, PrecisionFlag precision,
                     engine::TrainOptions& options);

// Parts, in ds_optimizer.cc and ds_scheduler.cc. They add refusals to `findings` and notes to it.
void apply_optimizer(const Settings& settings, Findings& findings, engine::TrainOptions& options);
void apply_scheduler(const Settings& settings, Findings& findings, engine::TrainOptions& options);

// Throws UserError (10) when `block` (optimizer.params) holds a name that `type` does not take.
void check_params(const Settings& settings, const std::string& block, const std::string& type,
                  std::span<const std::string> known);

}  // namespace fm::cli
