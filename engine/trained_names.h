// Which parameters a run trains: --train and --freeze, regular expressions that look for a match
// anywhere in a parameter's name.
#pragma once

#include <functional>
#include <string>

#include "engine/options.h"
#include "model/unit.h"

namespace fm::engine {

// Whether a parameter with this name is trained; empty: all are. Throws UserError (10) for words
// that are no regular expression.
std::function<bool(const std::string&)> trained_names(const TrainOptions& options);

// Throws UserError (10) where an expression matches nothing, or nothing is left to train.
void check_trained_names(const TrainOptions& options, const model::Model& model);

}  // namespace fm::engine
