#include "pipeline/validate.h"

#include <algorithm>

#include "core/check.h"
#include "pipeline/rank_rules.h"

namespace fm::pipeline {
namespace {

std::optional<Refusal> validate_rank(const Program& program, const ProgramRules& rules, int rank) {
  RankRules state(rules, rank);
  for (std::size_t index = 0; index < program.size(); ++index) {
    const std::string reason = state.check(program[index]);
    if (!reason.empty()) return Refusal{rank, static_cast<int>(index), reason};
  }
  const std::string reason = state.check_end();
  if (reason.empty()) return std::nullopt;
  return Refusal{rank, static_cast<int>(program.size()), reason};
}

// Runs all ranks in lockstep at the instructions where they meet: pairs of send and receive, the
// two ends of the tied matrix, and the collectives of the whole pipe.
class Rendezvous {
 public:
  Rendezvous(const std::vector<Program>& programs, const Placement& units)
      : programs_(programs), units_(units), next_(programs.size(), 0) {}

  std::optional<Refusal> run() {
    bool progressed = true;
    while (progressed) {
      progressed = false;
      for (int rank = 0; rank < units_.pipe_ranks(); ++rank) progressed |= advance(rank);
    }
    for (int rank = 0; rank < units_.pipe_ranks(); ++rank) {
      if (head(rank) != nullptr) return stuck(rank);
    }
    return std::nullopt;
  }

 private:
  const Instruction* head(int rank) const {
    const auto at = static_cast<std::size_t>(rank);
    return next_[at] < programs_[at].size() ? &programs_[at][next_[at]] : nullptr;
  }

  bool holds(int rank, const Instruction& wanted) const {
    const Instruction* instruction = head(rank);
    return instruction != nullptr && *instruction == wanted;
  }

  // The ranks that must be at `partner` for the instruction to happen; empty: none.
  std::vector<int> partners(int rank, const Instruction& instruction, Instruction& partner) const {
    const OpRow& form = row_of(instruction.op);
    partner = instruction;
    partner.op = form.partner;
    switch (form.meets) {
      case OpRow::Meets::kNobody: return {};
      case OpRow::Meets::kOwner: return {units_.owner_of(instruction.unit)};
      case OpRow::Meets::kOwnerBefore: return {units_.owner_of(instruction.unit - 1)};
      case OpRow::Meets::kOwnerAfter: return {units_.owner_of(instruction.unit + 1)};
      case OpRow::Meets::kTiedEnds: return {units_.owner_of(0), units_.owner_of(units_.head())};
      case OpRow::Meets::kRankBefore: return {rank - 1};
      case OpRow::Meets::kRankBehind: return {rank + 1};
      case OpRow::Meets::kEveryRank: return everyone();
    }
    return {};
  }

  std::vector<int> everyone() const {
    std::vector<int> ranks(programs_.size());
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank] = static_cast<int>(rank);
    return ranks;
  }

  bool advance(int rank) {
    bool moved = false;
    while (const Instruction* instruction = head(rank)) {
      Instruction partner;
      std::vector<int> others = partners(rank, *instruction, partner);
      std::erase(others, rank);
      const bool met = std::all_of(others.begin(), others.end(),
                                   [&](int other) { return holds(other, partner); });
      if (!met) return moved;
      for (const int other : others) ++next_[static_cast<std::size_t>(other)];
      ++next_[static_cast<std::size_t>(rank)];
      moved = true;
    }
    return moved;
  }

  Refusal stuck(int rank) const {
    Instruction partner;
    const auto index = static_cast<int>(next_[static_cast<std::size_t>(rank)]);
    std::string reason = "waits for ever";
    for (const int other : partners(rank, *head(rank), partner)) {
      if (other == rank || holds(other, partner)) continue;
      const Instruction* instruction = head(other);
      reason =
          core::concat("waits for ", print(partner), " of pipe rank ", other, ", which ",
                       instruction == nullptr ? "has ended" : "waits in " + print(*instruction));
    }
    return {rank, index, reason};
  }

  const std::vector<Program>& programs_;
  const Placement& units_;
  std::vector<std::size_t> next_;
};

}  // namespace

std::optional<Refusal> validate(const std::vector<Program>& programs, const ProgramRules& rules) {
  FM_CHECK(static_cast<int>(programs.size()) == rules.units.pipe_ranks(),
           "one program per pipe rank");
  for (int rank = 0; rank < rules.units.pipe_ranks(); ++rank) {
    if (auto refusal = validate_rank(programs[static_cast<std::size_t>(rank)], rules, rank)) {
      return refusal;
    }
  }
  return Rendezvous(programs, rules.units).run();
}

std::string describe(const Refusal& refusal, const std::vector<Program>& programs) {
  const Program& program = programs[static_cast<std::size_t>(refusal.pipe_rank)];
  const auto index = static_cast<std::size_t>(refusal.index);
  return core::concat("pipe rank ", refusal.pipe_rank, ", instruction ", refusal.index, " (",
                      index < program.size() ? print(program[index]) : "the end",
                      "): ", refusal.reason);
}

}  // namespace fm::pipeline
