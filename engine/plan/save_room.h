// The memory of saves that nobody waits for.
#pragma once

#include <string>

#include "engine/options.h"
#include "zero/layout.h"

namespace fm::engine {

// Whether a run has checkpoints between its steps that are written from a copy of the state. What
// sleeps on a disk is not copied.
bool copies_saves(const TrainOptions& options);

// What a rank writes of its state, which the copy holds: fp32 weights and moments.
core::Bytes copy_for_save(const zero::Layout& layout);

// Why checkpoints are written between steps although --save_async says otherwise; "": they are not,
// or that was asked for. `copies`: what the plan has decided.
std::string waiting_saves_note(const TrainOptions& options, bool copies);

}  // namespace fm::engine
