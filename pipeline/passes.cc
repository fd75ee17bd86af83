#include "pipeline/passes.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "core/check.h"

namespace fm::pipeline {

namespace {

// One instruction of a chunk, through its units.
void expand_chunk(Program& out, const Instruction& at, const Placement& units, UnitRange body) {
  for (int step = 0; step < body.count(); ++step) {
    const bool ascends = at.op == Op::kForward;
    const int unit = ascends ? body.first + step : body.last - 1 - step;
    if (ascends || units.has_backward(unit)) out.push_back({at.op, at.micro, unit});
  }
}

// Instructions of one op and one chunk, which follow each other but for loads and losses.
struct Run {
  Op op = Op::kForward;
  int chunk = -1;  // none
  std::vector<int> micros;
  Program loads, losses;
};

void append(Program& out, Program& more) {
  out.insert(out.end(), more.begin(), more.end());
  more.clear();
}

void end_run(Program& out, Run& run, const Placement& units, int pipe_rank) {
  const bool ascends = run.op == Op::kForward;
  append(out, run.loads);
  if (!ascends) append(out, run.losses);
  const UnitRange body = run.chunk < 0 ? UnitRange{} : units.body(pipe_rank, run.chunk);
  for (UnitRange left = body; left.count() > 0;) {
    UnitRange together{left.first, left.first + 1};
    if (!ascends) {
      together = {left.last - 1, left.last};
      const bool block = units.is_block(together.first);
      while (block && together.first > left.first && !units.starts_segment(together.first)) {
        --together.first;
      }
    }
    for (const int micro : run.micros) expand_chunk(out, {run.op, micro, -1}, units, together);
    (ascends ? left.first : left.last) = ascends ? together.last : together.first;
  }
  append(out, run.losses);
  run = {};
}

Program expand_unit_major(const Program& scheduled, const Placement& units, int pipe_rank) {
  Program out;
  Run run;
  for (const Instruction& at : scheduled) {
    if (at.op == Op::kLoad) {
      run.loads.push_back(at);
    } else if (at.op == Op::kLoss) {
      run.losses.push_back(at);
    } else if (at.unit < 0) {
      end_run(out, run, units, pipe_rank);
      out.push_back(at);
    } else {
      const bool other = run.chunk >= 0 && (run.op != at.op || run.chunk != at.unit);
      if (other) end_run(out, run, units, pipe_rank);
      run.op = at.op;
      run.chunk = at.unit;
      run.micros.push_back(at.micro);
    }
  }
  end_run(out, run, units, pipe_rank);
  return out;
}

}  // namespace

Program expand_units(const Program& scheduled, const Placement& units, int pipe_rank,
                     UnitOrder order) {
  if (order == UnitOrder::kUnitMajor) return expand_unit_major(scheduled, units, pipe_rank);
  Program out;
  for (const Instruction& at : scheduled) {
    if (at.unit < 0) {
      out.push_back(at);
    } else {
      expand_chunk(out, at, units, units.body(pipe_rank, at.unit));
    }
  }
  return out;
}

// Paired lowering in order of time: the instruction that begins first is issued first. When an
// instruction ends, both ends of the messages with its results are appended.

namespace {

class Lowering {
 public:
  Lowering(const std::vector<Program>& in, const Placement& units, const InstructionTime& time)
      : in_(in),
        units_(units),
        time_(time),
        ranks_(in.size()),
        waiting_(static_cast<std::size_t>(units.unit_count()), 0) {
    for (std::size_t rank = 0; rank < in.size(); ++rank) look_ahead(static_cast<int>(rank));
  }

  // False when the orders deadlock.
  bool run() {
    for (int rank = next_rank(); rank >= 0; rank = next_rank()) {
      if (at(rank).busy) {
        end(rank);
      } else {
        begin(rank);
      }
      look_ahead(rank);
    }
    return stuck_rank() < 0;
  }
  // The first rank that has not reached the end of its program, or -1.
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
    for (RankProgress& rank : ranks_) out.push_back(std::move(rank.out));
    return out;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  enum class Room : std::uint8_t { kNeeded, kAnyway };

  struct RankProgress {
    std::size_t next = 0;
    Program out;
    Instruction running;
    bool busy = false;                    // `running` is under way
    double clock = 0.0;                   // when `running` ends
    double due = kNever;                  // when the rank continues: an end, or the next begin
    std::map<Handover, double> received;  // with the time
  };

  RankProgress& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  const Program& program_of(int rank) const { return in_[static_cast<std::size_t>(rank)]; }

  // Where all ranks wait, a rank that is held back by is_full() continues; the last such rank
  // first, so that the others are held back as long as possible.
  int next_rank() {
    int rank = earliest();
    for (int here = static_cast<int>(ranks_.size()) - 1; rank < 0 && here >= 0; --here) {
      at(here).due = begin_of_next(here, Room::kAnyway);
      if (at(here).due < kNever) rank = here;
    }
    return rank;
  }

  // The rank that continues first; -1: none does. At equal times an end precedes a begin.
  int earliest() const {
    int first = -1;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const RankProgress& here = ranks_[rank];
      if (here.due == kNever) continue;
      const RankProgress* const best =
          first < 0 ? nullptr : &ranks_[static_cast<std::size_t>(first)];
      const bool sooner = best == nullptr || here.due < best->due ||
                          (here.due == best->due && here.busy && !best->busy);
      if (sooner) first = static_cast<int>(rank);
    }
    return first;
  }

  void look_ahead(int rank) {
    RankProgress& here = at(rank);
    here.due = here.busy ? here.clock : begin_of_next(rank);
  }

  double begin_of_next(int rank, Room room = Room::kNeeded) {
    const RankProgress& here = at(rank);
    if (here.next == program_of(rank).size()) return kNever;
    const Instruction& next = program_of(rank)[here.next];
    if (next.op == Op::kValidate) return begin_of_validation();
    if (room == Room::kNeeded && is_full(next)) return kNever;
    const std::optional<Handover> taken = units_.taken_by(next);
    if (!taken || !units_.crosses(*taken)) return here.clock;
    const auto there = here.received.find(*taken);
    return there == here.received.end() ? kNever : std::max(here.clock, there->second);
  }

  // Where no gradients return, only this limit keeps a fast rank from sending every micro-batch to
  // a slow one, which would have to keep them all.
  bool is_full(const Instruction& next) {
    for (const Handover& given : units_.given_by(next)) {
      if (is_counted(given) && waiting_at(given.unit) >= kMostLeaving) return true;
    }
    return false;
  }
  bool is_counted(const Handover& given) const {
    return !given.gradient && !units_.has_backward(given.from());
  }
  // `next` begins to read a received hidden state.
  void make_room(const Instruction& next, double now) {
    const std::optional<Handover> taken = units_.taken_by(next);
    if (!taken || !units_.crosses(*taken) || !is_counted(*taken)) return;
    --waiting_at(taken->unit);
    const int sender = units_.owner_of(taken->from());
    if (at(sender).due == kNever) at(sender).clock = std::max(at(sender).clock, now);
    look_ahead(sender);
  }
  int& waiting_at(int unit) { return waiting_[static_cast<std::size_t>(unit)]; }

  // All ranks reach it together, so no message crosses it.
  double begin_of_validation() const {
    double latest = 0.0;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const RankProgress& each = ranks_[rank];
      const bool there =
          !each.busy && each.next < in_[rank].size() && in_[rank][each.next].op == Op::kValidate;
      if (!there) return kNever;
      latest = std::max(latest, each.clock);
    }
    return latest;
  }

  void validate_at(double time) {
    for (RankProgress& each : ranks_) {
      each.out.push_back({Op::kValidate, -1, -1});
      ++each.next;
      each.clock = time;
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) look_ahead(static_cast<int>(rank));
  }

  void begin(int rank) {
    RankProgress& here = at(rank);
    if (program_of(rank)[here.next].op == Op::kValidate) return validate_at(here.due);
    here.running = program_of(rank)[here.next++];
    make_room(here.running, here.due);
    here.out.push_back(here.running);
    here.clock = here.due + time_(here.running, rank);
    here.busy = true;
  }

  void end(int rank) {
    at(rank).busy = false;
    for (const Handover& handover : units_.given_by(at(rank).running)) pair_up(rank, handover);
  }

  void pair_up(int rank, const Handover& handover) {
    if (!units_.crosses(handover)) return;
    const int owner = units_.owner_of(handover.unit);
    at(rank).out.push_back(handover.send());
    at(owner).out.push_back(handover.receive());
    at(owner).received.emplace(handover, at(rank).clock);
    if (is_counted(handover)) ++waiting_at(handover.unit);
    look_ahead(owner);
  }

  const std::vector<Program>& in_;
  const Placement& units_;
  const InstructionTime& time_;
  std::vector<RankProgress> ranks_;
  std::vector<int> waiting_;  // by unit: received hidden states that it has not begun to read
};

// All blocks take the same time.
InstructionTime unit_times(const Placement& units) {
  return [&units](const Instruction& instruction, int) {
    return units.is_block(instruction.unit) ? row_of(instruction.op).forwards : 0.0;
  };
}

}  // namespace

std::vector<Program> insert_p2p(const std::vector<Program>& expanded, const Placement& units,
                                const InstructionTime& time) {
  Lowering lowering(expanded, units, time);
  FM_CHECK(lowering.run(), "schedule deadlocks: ", lowering.stuck());
  return lowering.result();
}

std::vector<Program> insert_p2p(const std::vector<Program>& expanded, const Placement& units) {
  return insert_p2p(expanded, units, unit_times(units));
}

std::string deadlock_of(const std::vector<Program>& expanded, const Placement& units) {
  const InstructionTime time = unit_times(units);
  Lowering lowering(expanded, units, time);
  return lowering.run() ? "" : lowering.stuck();
}

Program insert_recompute(const Program& program, const Placement& units) {
  Program out;
  for (const Instruction& instruction : program) {
    const bool needs_kept = instruction.op == Op::kBackward || instruction.op == Op::kBackwardInput;
    if (needs_kept && units.ends_segment(instruction.unit)) {
      int first = instruction.unit;
      while (!units.starts_segment(first)) --first;
      for (int unit = first; unit <= instruction.unit; ++unit)
        out.push_back({Op::kRecompute, instruction.micro, unit});
    }
    out.push_back(instruction);
  }
  return out;
}

}  // namespace fm::pipeline
