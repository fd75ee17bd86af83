#include "pipeline/simulate.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "core/check.h"

namespace fm::pipeline {

namespace {

class Simulator {
 public:
  Simulator(const std::vector<Program>& programs, const UnitRow& row, double comm)
      : programs_(programs),
        row_(row),
        comm_(comm),
        clock_(programs.size(), 0.0),
        next_(programs.size(), 0),
        busy_(programs.size(), 0.0) {}

  Simulation run(const std::function<double(const Instruction&, int)>& cost) {
    bool progressed = true;
    while (progressed) {
      progressed = false;
      for (int rank = 0; rank < row_.pipe_ranks(); ++rank) {
        while (advance(rank, cost)) progressed = true;
      }
    }
    for (std::size_t rank = 0; rank < next_.size(); ++rank) {
      FM_CHECK(next_[rank] == programs_[rank].size(), "simulated programs deadlock at pipe rank ",
               rank);
    }
    return {*std::max_element(clock_.begin(), clock_.end()), std::move(busy_)};
  }

 private:
  using Transfer = std::tuple<Op, int, int>;  // (op, micro, sending rank)

  bool advance(int rank, const std::function<double(const Instruction&, int)>& cost) {
    const auto here = static_cast<std::size_t>(rank);
    if (next_[here] == programs_[here].size()) return false;
    const Instruction& at = programs_[here][next_[here]];
    if (const std::optional<Transfer> input = input_from_neighbour(at, rank)) {
      const auto sent = sent_.find(*input);
      if (sent == sent_.end()) return false;
      clock_[here] = std::max(clock_[here], sent->second + comm_);
    }
    if (at.op == Op::kSendAct || at.op == Op::kSendGrad) {
      sent_[{at.op, at.micro, rank}] = clock_[here];
    }
    const double spent = cost(at, rank);
    clock_[here] += spent;
    busy_[here] += spent;
    ++next_[here];
    return true;
  }

  // What `at` consumes that a neighbouring pipe rank sends.
  std::optional<Transfer> input_from_neighbour(const Instruction& at, int rank) const {
    const UnitRange body = row_.body(rank);
    const bool backward = at.op == Op::kBackward || at.op == Op::kBackwardInput;
    if (at.op == Op::kForward && at.unit == body.first && !row_.is_first(rank)) {
      return Transfer{Op::kSendAct, at.micro, rank - 1};
    }
    if (backward && at.unit == body.last - 1 && !row_.is_last(rank)) {
      return Transfer{Op::kSendGrad, at.micro, rank + 1};
    }
    return std::nullopt;
  }

  const std::vector<Program>& programs_;
  const UnitRow& row_;
  double comm_;
  std::vector<double> clock_;
  std::vector<std::size_t> next_;
  std::vector<double> busy_;
  std::map<Transfer, double> sent_;  // time
};

}  // namespace

double Simulation::bubble() const {
  const double total = std::accumulate(busy.begin(), busy.end(), 0.0);
  const double machine = static_cast<double>(busy.size()) * makespan;
  return machine > 0.0 ? 1.0 - total / machine : 0.0;
}

Simulation simulate(const std::vector<Program>& programs, const UnitRow& row,
                    const std::function<double(const Instruction&, int pipe_rank)>& cost,
                    double comm) {
  return Simulator(programs, row, comm).run(cost);
}

}  // namespace fm::pipeline
