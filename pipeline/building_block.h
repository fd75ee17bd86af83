// V schedules that repeat one building block (Pipeline Parallelism with Controllable Memory,
// NeurIPS 2024, arXiv 2405.15362): every rank has two chunks, a micro-batch begins every six units
// of time, and one unit is one Forward, backward-input or backward-weight of a chunk.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "pipeline/instruction.h"
#include "pipeline/placement.h"

namespace fm::pipeline {

struct BuildingBlock {
  // A backward is two instructions, of which the weight half takes the next free unit of time; or
  // one instruction that takes two units.
  enum class Backward : std::uint8_t { kSplit, kWhole };
  // Which instructions are moved ahead: those of warm-up and cool-down, or all.
  enum class Moves : std::uint8_t { kEnds, kAll };

  // By pipe rank, the times of micro-batch 0: forward of chunk 0, forward of chunk 1, backward of
  // chunk 1, backward of chunk 0. No two are equal modulo 6.
  std::vector<std::array<int, 4>> starts;
  Backward backward = Backward::kSplit;
  Moves moves = Moves::kEnds;
};

// Repeats the block for every micro-batch, then moves instructions ahead to free units of time
// while no rank keeps more than the fullest rank of the plain repetition. By pipe rank.
std::vector<Program> repeat_block(const BuildingBlock& block, const PipeShape& shape);

}  // namespace fm::pipeline
