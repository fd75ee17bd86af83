// The pass that moves slices between tiers.
#pragma once

#include "pipeline/instruction.h"
#include "pipeline/validate.h"

namespace fm::offload {

// kFromStart: as far ahead of its update as the ring allows, so that units arrive and leave while
// others are updated; the first ones from the step's begin on, as soon as those of the last step
// have left. kBehindForwards: the same, but the first ones arrive during the backwards, because the
// forwards read parameters. kInPlace: directly before it, to find out what overlap gains
// ("pipeline_read").
enum class Reads : std::uint8_t { kFromStart, kBehindForwards, kInPlace };

// Fetch before and Store behind every Update, where state sleeps. Pure.
pipeline::Program insert_offload(const pipeline::Program& program,
                                 const pipeline::ProgramRules& rules,
                                 Reads reads = Reads::kFromStart);

}  // namespace fm::offload
