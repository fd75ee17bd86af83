// ZB-V by search (arXiv 2405.15362, "V-ZB"): like zb-v, for unequal times and under a memory limit,
// p M. Every rank takes the instruction that can begin first; weight halves fill the gaps. The best
// of several ways to decide and of zb-v itself is used, by the longest stage and then by the
// makespan.
#include <algorithm>

#include "core/check.h"
#include "pipeline/schedule_study.h"
#include "pipeline/schedules.h"
#include "pipeline/v_search.h"

namespace fm::pipeline {

std::vector<Program> zb_v_auto(const PipeShape& shape) {
  const double limit = shape.activation_limit.value_or(shape.pipe_ranks);
  std::vector<std::vector<Program>> tried;
  std::vector<Program> by_hand;
  for (int rank = 0; rank < shape.pipe_ranks; ++rank) by_hand.push_back(zb_v(shape, rank));
  if (std::ranges::max(peak_activations(by_hand, shape)) <= limit) tried.push_back(by_hand);
  for (const VSearchWay& way : all_v_search_ways()) {
    std::vector<Program> found = search_v(shape, limit, way);
    if (!found.empty()) tried.push_back(std::move(found));
  }
  FM_USER_CHECK(!tried.empty(),
                "a pipe rank must be allowed to keep at least one micro-batch and "
                "a half for zb-v-auto; raise --activation_limit (",
                limit, ")");
  const auto cost = [&](const std::vector<Program>& programs) {
    const Simulation run = simulate_schedule(programs, shape);
    return std::pair(run.longest_stage(), run.makespan);
  };
  return *std::ranges::min_element(tried, {}, cost);
}

}  // namespace fm::pipeline
