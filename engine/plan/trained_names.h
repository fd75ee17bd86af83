// Which parameters a run trains: --train and --freeze, regular expressions that look for a match
// anywhere in a parameter's name; or adapters and --modules_to_save.
#pragma once

#include <functional>
#include <string>

#include "engine/options.h"
#include "model/unit.h"

namespace fm::engine {

// Whether a parameter with this name is trained; empty: all are. Throws UserError (10) for words
// that are no regular expression.
std::function<bool(const std::string&)> trained_names(const TrainOptions& options);

// Whether a parameter belongs to a module of --modules_to_save: any whose name ends so, as in peft.
bool is_saved_module(const LoraOptions& lora, const std::string& name);

// Throws UserError (10) where an expression matches nothing, or nothing is left to train.
void check_trained_names(const TrainOptions& options, const model::Model& model);

}  // namespace fm::engine
