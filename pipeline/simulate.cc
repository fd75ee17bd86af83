#include "pipeline/simulate.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "core/check.h"

namespace fm::pipeline {

namespace {

class Simulator {
 public:
  Simulator(const std::vector<Program>& programs, const Placement& units, double comm)
      : programs_(programs),
        units_(units),
        comm_(comm),
        clock_(programs.size(), 0.0),
        next_(programs.size(), 0),
        busy_(programs.size(), 0.0),
        first_(programs.size(), 0.0),
        last_(programs.size(), 0.0),
        timeline_(programs.size()) {}

  Simulation run(const std::function<double(const Instruction&, int)>& cost) {
    bool progressed = true;
    while (progressed) {
      progressed = false;
      for (int rank = 0; rank < units_.pipe_ranks(); ++rank) {
        while (advance(rank, cost)) progressed = true;
      }
    }
    for (std::size_t rank = 0; rank < next_.size(); ++rank) {
      FM_CHECK(next_[rank] == programs_[rank].size(), "simulated programs deadlock at pipe rank ",
               rank);
    }
    return {*std::max_element(clock_.begin(), clock_.end()), std::move(busy_), std::move(first_),
            std::move(last_), std::move(timeline_)};
  }

 private:
  bool advance(int rank, const std::function<double(const Instruction&, int)>& cost) {
    const auto here = static_cast<std::size_t>(rank);
    if (next_[here] == programs_[here].size()) return false;
    const Instruction& at = programs_[here][next_[here]];
    const std::optional<Handover> taken = units_.taken_by(at);
    if (taken && units_.crosses(*taken)) {
      const auto sent = sent_.find(taken->send());
      if (sent == sent_.end()) return false;
      clock_[here] = std::max(clock_[here], sent->second + comm_);
    }
    if (at.op == Op::kSendAct || at.op == Op::kSendGrad) sent_[at] = clock_[here];
    const double spent = cost(at, rank);
    if (spent > 0.0) {
      if (busy_[here] == 0.0) first_[here] = clock_[here];
      last_[here] = clock_[here] + spent;
    }
    timeline_[here].push_back({at, clock_[here], clock_[here] + spent});
    clock_[here] += spent;
    busy_[here] += spent;
    ++next_[here];
    return true;
  }

  const std::vector<Program>& programs_;
  const Placement& units_;
  double comm_;
  std::vector<double> clock_;
  std::vector<std::size_t> next_;
  std::vector<double> busy_, first_, last_;
  std::vector<std::vector<TimedInstruction>> timeline_;
  std::map<Instruction, double> sent_;  // time
};

}  // namespace

double Simulation::bubble() const {
  const double total = std::accumulate(busy.begin(), busy.end(), 0.0);
  const double machine = static_cast<double>(busy.size()) * makespan;
  return machine > 0.0 ? 1.0 - total / machine : 0.0;
}

double Simulation::longest_stage() const {
  double longest = 0.0;
  for (std::size_t rank = 0; rank < busy.size(); ++rank) {
    longest = std::max(longest, last_end[rank] - first_start[rank]);
  }
  return longest;
}

Simulation simulate(const std::vector<Program>& programs, const Placement& units,
                    const std::function<double(const Instruction&, int pipe_rank)>& cost,
                    double comm) {
  return Simulator(programs, units, comm).run(cost);
}

}  // namespace fm::pipeline
