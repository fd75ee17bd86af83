// How the ranks of a sequence group share the tokens and heads of a row.
#pragma once

#include <string>

#include "core/types.h"
#include "engine/options.h"
#include "model/unit.h"

namespace fm::engine {

// What `options` ask for with this model. Throws UserError (10) where tokens or heads cannot be cut
// so.
core::SequenceSplit sequence_split_of(const TrainOptions& options, const model::Model& model);

// For banner and plan, "" for one rank: "Ulysses 2", "ring 4", "Ulysses 2 x ring 2".
std::string sequence_words(const core::SequenceSplit& split);

}  // namespace fm::engine
