// ZB-1p and ZB-2p (arXiv 2401.10241, section 3.1): a search for the places of the two halves of
// backward, by the times of each rank and under a memory limit: p M, and 2p M. Micro-batches are
// placed in turn, forwards down the pipe and backward-inputs up; weight halves fill idle times and
// free memory. The best result of eight ways to decide is used.
#include "core/check.h"
#include "pipeline/schedules.h"
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

}  // namespace fm::pipeline
