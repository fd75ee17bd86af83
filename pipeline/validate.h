// The proof before the run: every program of every pipe rank is checked against the rules below,
// then all ranks together with rendezvous semantics (a send waits for its receive).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/shard_plan.h"
#include "pipeline/gradient_ring.h"
#include "pipeline/instruction.h"
#include "pipeline/placement.h"
#include "pipeline/ring_places.h"

namespace fm::pipeline {

struct ProgramRules {
  Placement units;
  int micros = 1;
  core::ShardPlan plan;
  bool recompute = false;
  bool validates = false;  // a step validates the update of the previous one
  // The ring of the units whose state sleeps (pipeline/ring_places.h); 0: no state sleeps.
  int awake = 0;
  int end_blocks = 1;
  GradientRing gradients = {};

  Ring ring() const { return {.awake = awake, .end_blocks = end_blocks}; }
};

struct Refusal {
  int pipe_rank = 0;
  int index = 0;  // into the rank's program; its size when something is missing at the end
  std::string reason;
};

// Checks, per rank: every micro-batch passes forward through every unit, and backward through every
// unit that has a backward, exactly once and in order; weights are gathered before and released
// after use; a gradient is reduced exactly once, after it is complete and before its memory is
// reused; norm after all reductions, update after norm, publish after update, report last; what
// sleeps is fetched into free places before its update and stored behind it; with `validates`,
// nothing before the validation that cannot be undone, and no message across it. Across ranks:
// every send matches a receive, and waits form no cycle. Returns the first violation, or nothing.
std::optional<Refusal> validate(const std::vector<Program>& programs, const ProgramRules& rules);

// One line: "pipe rank 1, instruction 7 (F0.3): weights of unit 3 are not gathered".
std::string describe(const Refusal& refusal, const std::vector<Program>& programs);

}  // namespace fm::pipeline
