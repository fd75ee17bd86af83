// The block "pipeline": schedule, chunks, cut of the model.
#pragma once

#include <string>

#include "cli/deepspeed/ds_check.h"
#include "engine/options.h"

namespace fm::cli {

// Fills options from the block. Throws UserError.
void apply_schedule(const JsonView& settings, engine::TrainOptions& options);

// A name of the table, "auto", or a FILE.csv. `where`: of messages. Throws UserError.
void choose_schedule(const std::string& words, const std::string& where,
                     engine::TrainOptions& options);
void set_activation_limit(double limit, const std::string& where, engine::TrainOptions& options);

}  // namespace fm::cli
