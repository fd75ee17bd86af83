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
  Simulator(const std::vector<Program>& programs, const Placement& units, double comm, int steps)
      : programs_(programs),
        units_(units),
        comm_(comm),
        steps_(steps),
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
      FM_CHECK(next_[rank] == programs_[rank].size() * static_cast<std::size_t>(steps_),
               "simulated programs deadlock at pipe rank ", rank);
    }
    return {*std::max_element(clock_.begin(), clock_.end()), std::move(busy_), std::move(first_),
            std::move(last_), std::move(timeline_)};
  }

 private:
  bool advance(int rank, const std::function<double(const Instruction&, int)>& cost) {
    const auto here = static_cast<std::size_t>(rank);
    const std::size_t length = programs_[here].size();
    if (next_[here] == length * static_cast<std::size_t>(steps_)) return false;
    const auto step = static_cast<int>(next_[here] / length);
    const Instruction& instruction = programs_[here][next_[here] % length];
    const std::optional<Handover> taken = units_.taken_by(instruction);
    if (taken && units_.crosses(*taken)) {
      const auto sent = sent_.find({step, taken->send()});
      if (sent == sent_.end()) return false;
      clock_[here] = std::max(clock_[here], sent->second + comm_);
    }
    if (!meets_others(instruction.op, step, rank)) return false;
    if (instruction.op == Op::kSendAct || instruction.op == Op::kSendGrad)
      sent_[{step, instruction}] = clock_[here];
    const double spent = cost(instruction, rank);
    if (spent > 0.0) {
      if (busy_[here] == 0.0) first_[here] = clock_[here];
      last_[here] = clock_[here] + spent;
    }
    timeline_[here].push_back({instruction, clock_[here], clock_[here] + spent});
    clock_[here] += spent;
    busy_[here] += spent;
    ++next_[here];
    return true;
  }

  // Synchronisation between ranks. False: a rank that it waits for has not arrived yet.
  bool meets_others(Op op, int step, int rank) {
    if (steps_ == 1) return true;
    const double& clock = clock_[static_cast<std::size_t>(rank)];
    if (op == Op::kNorm || op == Op::kReduceTied) {
      reached_.try_emplace({step, op, rank}, clock);
      bool all = true;
      for (int other = 0; other < units_.pipe_ranks(); ++other) {
        const bool meets = op == Op::kNorm || units_.has_tied_end(other);
        all = (!meets || wait_for(rank, {step, op, other})) && all;
      }
      return all;
    }
    if (op == Op::kRecvNorm && !wait_for(rank, {step, Op::kSendNorm, rank - 1})) return false;
    const bool told = op == Op::kValidate && step > 0 && rank + 1 < units_.pipe_ranks();
    if (told && !wait_for(rank, {step, op, rank + 1})) return false;
    reached_[{step, op, rank}] = clock;
    return true;
  }

  struct Reached {
    int step;
    Op op;
    int rank;
    auto operator<=>(const Reached&) const = default;
  };
  bool wait_for(int rank, const Reached& what) {
    const auto found = reached_.find(what);
    if (found == reached_.end()) return false;
    double& clock = clock_[static_cast<std::size_t>(rank)];
    const bool own = what.rank == rank;
    clock = std::max(clock, found->second + (own ? 0.0 : comm_));
    return true;
  }

  const std::vector<Program>& programs_;
  const Placement& units_;
  double comm_;
  int steps_;
  std::vector<double> clock_;
  std::vector<std::size_t> next_;
  std::vector<double> busy_, first_, last_;
  std::vector<std::vector<TimedInstruction>> timeline_;
  std::map<std::pair<int, Instruction>, double> sent_;  // time, by step
  std::map<Reached, double> reached_;                   // time
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
                    double comm, int steps) {
  return Simulator(programs, units, comm, steps).run(cost);
}

}  // namespace fm::pipeline
