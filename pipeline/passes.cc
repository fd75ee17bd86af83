#include "pipeline/passes.h"

#include <set>

#include "core/check.h"

namespace fm::pipeline {

Program expand_units(const Program& scheduled, const Placement& units, int pipe_rank) {
  Program out;
  for (const Instruction& at : scheduled) {
    if (at.unit < 0) {
      out.push_back(at);
      continue;
    }
    const UnitRange body = units.body(pipe_rank, at.unit);
    for (int step = 0; step < body.count(); ++step) {
      const bool ascends = at.op == Op::kForward;
      out.push_back({at.op, at.micro, ascends ? body.first + step : body.last - 1 - step});
    }
  }
  return out;
}

// Paired lowering: rank by rank, issue what is ready; a producer whose consumer is elsewhere
// appends both ends at once.

namespace {

struct RankState {
  std::size_t next = 0;
  Program out;
  std::set<Handover> received;
};

class Lowering {
 public:
  Lowering(const std::vector<Program>& in, const Placement& units)
      : in_(in), units_(units), ranks_(in.size()) {
    for (const Program& program : in) trains_ = trains_ || trains(program);
  }

  // False when the orders deadlock.
  bool run() {
    bool progressed = true;
    while (progressed) {
      progressed = false;
      for (int rank = 0; rank < units_.pipe_ranks(); ++rank) progressed |= issue_next(rank);
    }
    return stuck_rank() < 0;
  }
  // The first rank that has not come to its end, or -1.
  int stuck_rank() const {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].next < in_[rank].size()) return static_cast<int>(rank);
    }
    return -1;
  }
  std::string stuck() const {
    const auto rank = static_cast<std::size_t>(stuck_rank());
    return core::concat("pipe rank ", rank, " at ", print(in_[rank][ranks_[rank].next]));
  }
  std::vector<Program> result() {
    std::vector<Program> out;
    for (RankState& rank : ranks_) out.push_back(std::move(rank.out));
    return out;
  }

 private:
  RankState& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  bool issue_next(int rank) {
    RankState& state = at(rank);
    const Program& program = in_[static_cast<std::size_t>(rank)];
    if (state.next == program.size() || !ready(rank, program[state.next])) return false;
    const Instruction issued = program[state.next++];
    state.out.push_back(issued);
    for (const Handover& handover : units_.given_by(issued)) pair_up(rank, handover);
    return true;
  }

  bool ready(int rank, const Instruction& next) {
    const std::optional<Handover> taken = units_.taken_by(next);
    return !taken || !units_.crosses(*taken) || at(rank).received.contains(*taken);
  }

  void pair_up(int rank, const Handover& handover) {
    if (!units_.crosses(handover) || (handover.gradient && !trains_)) return;
    RankState& there = at(units_.owner_of(handover.unit));
    at(rank).out.push_back(handover.send());
    there.out.push_back(handover.receive());
    there.received.insert(handover);
  }

  const std::vector<Program>& in_;
  const Placement& units_;
  std::vector<RankState> ranks_;
  bool trains_ = false;
};

}  // namespace

std::vector<Program> insert_p2p(const std::vector<Program>& expanded, const Placement& units) {
  Lowering lowering(expanded, units);
  FM_CHECK(lowering.run(), "schedule deadlocks: ", lowering.stuck());
  return lowering.result();
}

std::string deadlock_of(const std::vector<Program>& expanded, const Placement& units) {
  Lowering lowering(expanded, units);
  return lowering.run() ? "" : lowering.stuck();
}

Program insert_recompute(const Program& program, const Placement& units) {
  Program out;
  for (const Instruction& at : program) {
    const bool needs_kept = at.op == Op::kBackward || at.op == Op::kBackwardInput;
    if (needs_kept && units.ends_segment(at.unit)) {
      int first = at.unit;
      while (!units.starts_segment(first)) --first;
      for (int unit = first; unit <= at.unit; ++unit)
        out.push_back({Op::kRecompute, at.micro, unit});
    }
    out.push_back(at);
  }
  return out;
}

}  // namespace fm::pipeline
