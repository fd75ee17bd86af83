#include "pipeline/passes.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

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
      const int unit = ascends ? body.first + step : body.last - 1 - step;
      if (ascends || units.has_backward(unit)) out.push_back({at.op, at.micro, unit});
    }
  }
  return out;
}

// Paired lowering in the order of time: the instruction that begins first is issued first, and one
// that ends hands over what it made; both ends of a message are appended at once.

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
    for (Rank& rank : ranks_) out.push_back(std::move(rank.out));
    return out;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  enum class Room : std::uint8_t { kNeeded, kAnyway };

  struct Rank {
    std::size_t next = 0;
    Program out;
    Instruction running;
    bool busy = false;                    // with `running`
    double clock = 0.0;                   // when that ends
    double due = kNever;                  // when the rank goes on: its end, or the next one's begin
    std::map<Handover, double> received;  // and when
  };

  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  const Program& program_of(int rank) const { return in_[static_cast<std::size_t>(rank)]; }

  // Where everybody waits, a rank that is held up for another's sake goes on; the last one first,
  // so that the others hold back as long as they can.
  int next_rank() {
    int rank = earliest();
    for (int here = static_cast<int>(ranks_.size()) - 1; rank < 0 && here >= 0; --here) {
      at(here).due = begin_of_next(here, Room::kAnyway);
      if (at(here).due < kNever) rank = here;
    }
    return rank;
  }

  // The rank that goes on first, -1: none does. At one time what ends comes before what begins.
  int earliest() const {
    int first = -1;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const Rank& here = ranks_[rank];
      if (here.due == kNever) continue;
      const Rank* const best = first < 0 ? nullptr : &ranks_[static_cast<std::size_t>(first)];
      const bool sooner = best == nullptr || here.due < best->due ||
                          (here.due == best->due && here.busy && !best->busy);
      if (sooner) first = static_cast<int>(rank);
    }
    return first;
  }

  void look_ahead(int rank) {
    Rank& here = at(rank);
    here.due = here.busy ? here.clock : begin_of_next(rank);
  }

  double begin_of_next(int rank, Room room = Room::kNeeded) {
    const Rank& here = at(rank);
    if (here.next == program_of(rank).size()) return kNever;
    const Instruction& next = program_of(rank)[here.next];
    if (next.op == Op::kValidate) return begin_of_validation();
    if (room == Room::kNeeded && is_full(next)) return kNever;
    const std::optional<Handover> taken = units_.taken_by(next);
    if (!taken || !units_.crosses(*taken)) return here.clock;
    const auto there = here.received.find(*taken);
    return there == here.received.end() ? kNever : std::max(here.clock, there->second);
  }

  // Where no gradient comes back, nothing but this keeps a fast rank from sending every micro-batch
  // to a slow one, which would have to keep them all.
  bool is_full(const Instruction& next) {
    for (const Handover& given : units_.given_by(next)) {
      if (is_counted(given) && waiting_at(given.unit) >= kMostLeaving) return true;
    }
    return false;
  }
  bool is_counted(const Handover& given) const {
    return !given.gradient && !units_.has_backward(given.from());
  }
  // `next` begins to read what it was sent.
  void make_room(const Instruction& next, double now) {
    const std::optional<Handover> taken = units_.taken_by(next);
    if (!taken || !units_.crosses(*taken) || !is_counted(*taken)) return;
    --waiting_at(taken->unit);
    const int sender = units_.owner_of(taken->from());
    if (at(sender).due == kNever) at(sender).clock = std::max(at(sender).clock, now);
    look_ahead(sender);
  }
  int& waiting_at(int unit) { return waiting_[static_cast<std::size_t>(unit)]; }

  // All ranks come to it together, so that no message passes it by.
  double begin_of_validation() const {
    double latest = 0.0;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const Rank& each = ranks_[rank];
      const bool there =
          !each.busy && each.next < in_[rank].size() && in_[rank][each.next].op == Op::kValidate;
      if (!there) return kNever;
      latest = std::max(latest, each.clock);
    }
    return latest;
  }

  void validate_at(double time) {
    for (Rank& each : ranks_) {
      each.out.push_back({Op::kValidate, -1, -1});
      ++each.next;
      each.clock = time;
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) look_ahead(static_cast<int>(rank));
  }

  void begin(int rank) {
    Rank& here = at(rank);
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
  std::vector<Rank> ranks_;
  std::vector<int> waiting_;  // by unit: hidden states that it has not begun to read
};

// Every block takes as long as any other.
InstructionTime unit_times(const Placement& units) {
  return [&units](const Instruction& at, int) {
    return units.is_block(at.unit) ? row_of(at.op).forwards : 0.0;
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
