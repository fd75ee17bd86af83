// The memory of saves that nobody waits for.
#pragma once

#include <string>

#include "engine/options.h"
#include "zero/layout.h"

namespace fm::engine {

// Whether a run has checkpoints between its steps that are written while the next ones run: from a
// copy of what is in memory, and from slots of what sleeps on a disk (StateRules::save_slots).
bool copies_saves(const TrainOptions& options);

// What a rank writes of its state, fp32 weights and moments: those in memory, which the copy holds.
core::Bytes copy_for_save(const zero::Layout& layout);
// And the memory that those on a disk are read into, part by part; 0: none sleep.
core::Bytes part_for_save(const zero::Layout& layout);

// Why steps wait for checkpoints although --save_async says otherwise; "": they do not, or that was
// asked for. `copies`, `planned`: what the plan has decided.
std::string waiting_saves_note(const TrainOptions& options, bool copies,
                               const OffloadOptions& planned);

}  // namespace fm::engine
