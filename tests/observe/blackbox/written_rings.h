// Black boxes of a made-up start of four ranks, as their processes would have left them.
#pragma once

#include <string>
#include <vector>

#include "core/blackbox/black_box.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::blackbox {

struct WrittenRank {
  core::BlackBox box;
  int dp = 0;

  explicit WrittenRank(int rank, int ranks = 4) : box(rank) {
    std::vector<int> all;
    for (int at = 0; at < ranks; ++at) all.push_back(at);
    box.name_ops({{"F", "forward"}, {"B", "backward"}, {"R", "reduce"}});
    box.name_units({"embedding", "layers.0", "layers.1", "head"});
    box.add_group("world", all, rank);
    dp = box.add_group("dp", all, rank);
    box.begin_phase(core::RunPhase::kStep, 57);
  }
  std::uint64_t enter(core::BoxVerb verb, std::int64_t elements, int partner = -1) {
    return box.begin_verb({.verb = verb,
                           .group = dp,
                           .partner = partner,
                           .elements = core::Elements(elements),
                           .dtype = core::DType::kF32});
  }
  void finish(core::BoxVerb verb, std::int64_t elements, int partner = -1) {
    box.done(enter(verb, elements, partner));
  }
  // Returns why it could not be kept.
  std::string keep(const testing::ScratchFolder& folder, int rank, int ranks = 4,
                   const std::string& run = "7f3a") {
    return box.keep_in(folder.path() / "blackbox" / ("rank0000" + std::to_string(rank) + ".ring"),
                       {.run = run, .world_rank = rank, .world_size = ranks, .program = "1.0"});
  }
};

}  // namespace fm::blackbox
