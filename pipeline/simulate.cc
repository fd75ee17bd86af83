#include "pipeline/simulate.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "core/check.h"

namespace fm::pipeline {

double Simulation::bubble() const {
  const double total = std::accumulate(busy.begin(), busy.end(), 0.0);
  const double machine = static_cast<double>(busy.size()) * makespan;
  return machine > 0.0 ? 1.0 - total / machine : 0.0;
}

Simulation simulate(const std::vector<Program>& programs, const UnitRow& row,
                    const std::function<double(const Instruction&, int pipe_rank)>& cost,
                    double comm) {
  const auto ranks = static_cast<std::size_t>(row.pipe_ranks());
  std::vector<double> clock(ranks, 0.0);
  std::vector<std::size_t> next(ranks, 0);
  std::map<std::tuple<Op, int, int>, double> sent;  // (op, micro, receiving rank) -> time
  Simulation out;
  out.busy.assign(ranks, 0.0);

  const auto step = [&](std::size_t rank) {
    const Instruction& at = programs[rank][next[rank]];
    const int here = static_cast<int>(rank);
    if (at.op == Op::kSendAct) sent[{Op::kRecvAct, at.micro, here + 1}] = clock[rank];
    if (at.op == Op::kSendGrad) sent[{Op::kRecvGrad, at.micro, here - 1}] = clock[rank];
    if (at.op == Op::kRecvAct || at.op == Op::kRecvGrad) {
      const auto found = sent.find({at.op, at.micro, here});
      if (found == sent.end()) return false;
      clock[rank] = std::max(clock[rank], found->second + comm);
    }
    const double spent = cost(at, here);
    clock[rank] += spent;
    out.busy[rank] += spent;
    ++next[rank];
    return true;
  };

  bool progressed = true;
  while (progressed) {
    progressed = false;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      while (next[rank] < programs[rank].size() && step(rank)) progressed = true;
    }
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    FM_CHECK(next[rank] == programs[rank].size(), "simulated programs deadlock at pipe rank ",
             rank);
  }
  out.makespan = *std::max_element(clock.begin(), clock.end());
  return out;
}

}  // namespace fm::pipeline
