// Deleting checkpoints by hand, by the rules that a run has for its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/survey.h"

namespace fm::checkpoint {

struct PruneRules {
  int keep_last = 1;            // complete ones of each run
  std::int64_t keep_every = 0;  // also those whose step is a multiple; 0: no more
};

// What becomes of one checkpoint, or of what a killed run left.
struct PruneChoice {
  std::filesystem::path folder;
  core::Bytes bytes;
  bool goes = false;
  std::string why;  // it stays, or goes without being a checkpoint
};

// In the order of the survey; what was put aside is left out. Stays: the newest complete ones of
// each run, what is damaged, what `latest` names, the newest proven one, what a run spares, and the
// one that another run goes back to. Pure.
std::vector<PruneChoice> plan_prune(const OutputSurvey& survey, const PruneRules& rules);

// Holds the folder as a run does (MachineError 13 while one has it), looks at it anew, and deletes
// what goes. Returns the choices. MachineError (26) where the disk refuses.
std::vector<PruneChoice> prune_output(const std::filesystem::path& output_dir,
                                      const PruneRules& rules);

}  // namespace fm::checkpoint
