#include "pipeline/schedule_study.h"

#include <algorithm>

#include "pipeline/passes.h"

namespace fm::pipeline {
namespace {

double time_of(Op op, const PhaseCosts& costs) {
  struct Row {
    Op op;
    double time;
  };
  const Row rows[] = {{Op::kForward, costs.forward},
                      {Op::kBackward, costs.input + costs.weight},
                      {Op::kBackwardInput, costs.input},
                      {Op::kBackwardWeight, costs.weight}};
  const auto* const row =
      std::ranges::find_if(rows, [&](const Row& each) { return each.op == op; });
  return row == std::end(rows) ? 0.0 : row->time;
}

StudiedPrograms expand_for_study(const std::vector<Program>& scheduled, const PipeShape& shape) {
  StudiedPrograms out{split_evenly(shape.chunk_count(), shape, false), {}};
  for (int rank = 0; rank < shape.pipe_ranks; ++rank) {
    out.lowered.push_back(expand_units(scheduled[static_cast<std::size_t>(rank)], out.units, rank));
  }
  return out;
}

}  // namespace

StudiedPrograms lower_for_study(const std::vector<Program>& scheduled, const PipeShape& shape) {
  StudiedPrograms out = expand_for_study(scheduled, shape);
  out.lowered = insert_p2p(out.lowered, out.units);
  return out;
}

std::string deadlock_of(const std::vector<Program>& scheduled, const PipeShape& shape) {
  const StudiedPrograms expanded = expand_for_study(scheduled, shape);
  return deadlock_of(expanded.lowered, expanded.units);
}

Simulation simulate_schedule(const std::vector<Program>& scheduled, const PipeShape& shape) {
  const StudiedPrograms studied = lower_for_study(scheduled, shape);
  const auto cost = [&](const Instruction& instruction, int rank) {
    if (!studied.units.is_block(instruction.unit)) return 0.0;
    return time_of(instruction.op, shape.costs_of(rank)) / shape.chunks_on(rank);
  };
  return simulate(studied.lowered, studied.units, cost, shape.costs_of(0).comm);
}

std::vector<double> peak_activations(const std::vector<Program>& scheduled, const PipeShape& shape,
                                     int first) {
  std::vector<double> peaks;
  for (std::size_t rank = 0; rank < scheduled.size(); ++rank) {
    int live = 0;
    int peak = 0;
    for (const Instruction& instruction : scheduled[rank]) {
      if (instruction.unit < 0 || shape.chunk_of(static_cast<int>(rank), instruction.unit) < first)
        continue;
      if (instruction.op == Op::kForward) peak = std::max(peak, ++live);
      if (instruction.op == Op::kBackward || instruction.op == Op::kBackwardWeight) --live;
    }
    peaks.push_back(static_cast<double>(peak) / shape.chunks_on(static_cast<int>(rank)));
  }
  return peaks;
}

}  // namespace fm::pipeline
