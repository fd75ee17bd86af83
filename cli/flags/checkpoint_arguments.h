// fmengine-checkpoint's command line: a verb, what it is about, flags.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/prune_plan.h"

namespace fm::cli {

enum class CheckpointVerb : std::uint8_t { kList, kVerify, kPrune, kDiff };

struct CheckpointCommand {
  bool help = false;  // of the verb that was given, or of all
  bool version = false;
  bool any_verb = false;  // none was given
  CheckpointVerb verb = CheckpointVerb::kList;
  std::vector<std::string> paths;  // one; of diff two
  bool json = false;
  bool all = false;              // verify: every checkpoint of an output directory
  int threads = 1;               // verify
  bool removes = false;          // prune: --yes
  checkpoint::PruneRules rules;  // prune
  double atol = 0;               // diff
  std::int64_t most = 0;         // diff: lines of differing tensors
};

// Words without the program's name. Throws UserError (10).
CheckpointCommand parse_checkpoint_command(std::span<const std::string> words);

std::string checkpoint_help_text(const CheckpointCommand& command);

}  // namespace fm::cli
