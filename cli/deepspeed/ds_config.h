// A DeepSpeed JSON becomes typed options, or one helpful refusal.
#pragma once

#include <span>
#include <string>

#include "cli/deepspeed/config_values.h"
#include "cli/deepspeed/ds_check.h"
#include "cli/deepspeed/ds_offload.h"
#include "cli/deepspeed/hjson.h"
#include "cli/deepspeed/trainer_arguments.h"
#include "engine/options.h"

namespace fm::cli {

// Fills batch, element type, ZeRO stage, order of sums, recomputation, optimizer, scheduler,
// clipping, monitors and notes of `options`; what the JSON leaves to Hugging Face's Trainer comes
// from `trainer` (cli/deepspeed/trainer_arguments.h), else from DeepSpeed's defaults. Returns what
// --print_config shows. Throws UserError (10).
struct ConfigFlags {
  PrecisionFlag precision = std::nullopt;
  Unknown unknown = Unknown::kRefused;  // kNoted: --lenient
  OffloadFlags offload = {};
};
std::vector<ConfigValue> apply_ds_config(const ConfigText& config, const ConfigFlags& how,
                                         const TrainerArguments& trainer,
                                         engine::TrainOptions& options);

// Blocks with sources of their own (ds_optimizer.cc, ds_scheduler.cc). They add refusals and notes
// to `findings`.
void apply_optimizer(const JsonView& settings, Findings& findings, engine::TrainOptions& options);
// False: there is none.
bool apply_scheduler(const JsonView& settings, Findings& findings, engine::TrainOptions& options);

// What travels between hosts, behind ZeRO stage and sequence ranks.
void apply_between_hosts(const JsonView& settings, Findings& findings,
                         engine::TrainOptions& options);

// The type that `block` (optimizer, scheduler) names; "" when there is no block or it is empty.
// "auto" is `resolved`, with a note. Throws UserError (10) for a block with content and no type:
// DeepSpeed would drop the content.
std::string block_type(const JsonView& settings, const std::string& block,
                       const std::string& resolved, Findings& findings);

// A number that must be at least 0 and finite in fp32; UserError (10) otherwise.
double checked_number(const JsonView& settings, const std::string& path, double otherwise);

// Throws UserError (10) when `block` (optimizer.params) holds a name that `type` does not take.
void check_params(const JsonView& settings, const std::string& block, const std::string& type,
                  std::span<const std::string> known);

}  // namespace fm::cli
