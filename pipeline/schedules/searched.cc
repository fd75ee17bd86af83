#include "pipeline/schedules/searched.h"

#include <algorithm>

#include "core/check.h"
#include "pipeline/emitter.h"
#include "pipeline/schedule_study.h"
#include "pipeline/schedules/linear.h"
#include "pipeline/schedules/v_shaped.h"
#include "pipeline/v_search.h"
#include "pipeline/weight_filling.h"

namespace fm::pipeline {
namespace {

std::vector<Program> search(const PipeShape& shape, double limit) {
  std::optional<WeightFilling> best;
  for (int way = 0; way < 8; ++way) {
    WeightFilling tried(shape, limit,
                        {.bubble_before_first_input = way / 4 == 0,
                         .prefer_inputs = way / 2 % 2 == 0,
                         .always_fill = way % 2 == 0});
    if (!tried.run()) continue;
    if (!best || tried.longest_stage() < best->longest_stage()) best = std::move(tried);
  }
  if (!best && limit >= shape.pipe_ranks) {
    std::vector<Program> known;  // keeps p M
    for (int rank = 0; rank < shape.pipe_ranks; ++rank) known.push_back(zb_h1(shape, rank));
    return known;
  }
  FM_USER_CHECK(best,
                "a pipe rank must be allowed to keep more micro-batches for this schedule; raise "
                "--activation_limit (",
                limit, ", pipe ranks=", shape.pipe_ranks, ")");
  std::vector<Program> programs;
  for (int rank = 0; rank < shape.pipe_ranks; ++rank) {
    Emitter emit(shape, rank);
    int micros[3] = {};
    for (const WeightFilling::Phase phase : best->order_of(rank)) {
      const int micro = micros[static_cast<std::size_t>(phase)]++;
      if (phase == WeightFilling::Phase::kForward) emit.forward(micro);
      if (phase == WeightFilling::Phase::kInput) emit.backward_input(micro);
      if (phase == WeightFilling::Phase::kWeight) emit.backward_weight(micro);
    }
    programs.push_back(emit.finish());
  }
  return programs;
}

}  // namespace

std::vector<Program> zb_1p(const PipeShape& shape) {
  return search(shape, shape.activation_limit.value_or(shape.pipe_ranks));
}

std::vector<Program> zb_2p(const PipeShape& shape) {
  return search(shape, shape.activation_limit.value_or(2 * shape.pipe_ranks));
}

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
