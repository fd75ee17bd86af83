#include "pipeline/post_validation.h"

#include <algorithm>
#include <map>

#include "core/check.h"
#include "pipeline/passes.h"
#include "pipeline/simulate.h"

namespace fm::pipeline {
namespace {

constexpr double kSameTime = 1e-9;

// The begin of each instruction of `expanded`, by pipe rank.
std::vector<std::vector<double>> begins_of(const std::vector<Program>& expanded,
                                           const Placement& units) {
  const auto cost = [&](const Instruction& instruction, int) {
    return units.is_block(instruction.unit) ? row_of(instruction.op).forwards : 0.0;
  };
  const Simulation simulated = simulate(insert_p2p(expanded, units), units, cost);
  std::vector<std::vector<double>> begins(expanded.size());
  for (std::size_t rank = 0; rank < expanded.size(); ++rank) {
    for (const TimedInstruction& each : simulated.timeline[rank]) {
      const OpRow::Meets meets = row_of(each.at.op).meets;
      const bool message = meets != OpRow::Meets::kNobody && meets != OpRow::Meets::kEveryRank;
      if (!message) begins[rank].push_back(each.begin);
    }
    FM_CHECK(begins[rank].size() == expanded[rank].size(), "a simulation has every instruction");
  }
  return begins;
}

// How many instructions of each rank come before V.
class Cut {
 public:
  Cut(const std::vector<Program>& programs, const Placement& units)
      : programs_(programs), units_(units) {
    const auto begins = begins_of(programs, units);
    const auto most_of = [&](std::size_t rank) {
      const auto end = std::ranges::find_if_not(programs[rank], can_be_discarded, &Instruction::op);
      return static_cast<std::size_t>(end - programs[rank].begin());
    };
    // Ranks without a backward validate no later than the first rank that has one.
    std::size_t returning = 0;
    while (!units.has_backward(units.units_of(static_cast<int>(returning)).back())) ++returning;
    double latest = begins[returning][most_of(returning)];
    for (std::size_t rank = 0; rank < programs.size(); ++rank) {
      const std::size_t most = most_of(rank);
      latest = std::min(latest, begins[rank][most]);
      std::size_t count = 0;
      while (count < most && begins[rank][count] < latest - kSameTime) ++count;
      counts_.push_back(count);
    }
    for (std::size_t rank = 0; rank < programs.size(); ++rank) {
      for (std::size_t at = 0; at < programs[rank].size(); ++at) {
        for (const Handover& given : units.given_by(programs[rank][at])) made_at_[given] = at;
      }
    }
  }

  // Shortens until no instruction before V reads a result from after a V.
  std::vector<std::size_t> closed() {
    while (std::ranges::any_of(programs_, [&](const Program& each) { return shorten(each); })) {
    }
    return counts_;
  }

 private:
  bool shorten(const Program& program) {
    std::size_t& count = counts_[static_cast<std::size_t>(&program - programs_.data())];
    for (std::size_t at = 0; at < count; ++at) {
      const std::optional<Handover> taken = units_.taken_by(program[at]);
      if (!taken) continue;
      const auto maker = static_cast<std::size_t>(units_.owner_of(taken->from()));
      if (made_at_.at(*taken) < counts_[maker]) continue;
      count = at;
      return true;
    }
    return false;
  }

  const std::vector<Program>& programs_;
  const Placement& units_;
  std::vector<std::size_t> counts_;
  std::map<Handover, std::size_t> made_at_;  // index in the program of its producer
};

}  // namespace

std::vector<Program> insert_validation(const std::vector<Program>& expanded,
                                       const Placement& units) {
  const std::vector<std::size_t> counts = Cut(expanded, units).closed();
  std::vector<Program> out = expanded;
  for (std::size_t rank = 0; rank < out.size(); ++rank) {
    out[rank].insert(out[rank].begin() + static_cast<std::ptrdiff_t>(counts[rank]),
                     {Op::kValidate, -1, -1});
  }
  return out;
}

std::vector<Program> with_norm_in_parts(const std::vector<Program>& programs) {
  std::vector<Program> out;
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    Program parts;
    for (const Instruction& instruction : programs[rank]) {
      if (instruction.op != Op::kNorm) {
        parts.push_back(instruction);
        continue;
      }
      parts.push_back({Op::kNormPart, -1, -1});
      if (rank > 0) parts.push_back({Op::kRecvNorm, -1, -1});
      if (rank + 1 < programs.size()) parts.push_back({Op::kSendNorm, -1, -1});
    }
    out.push_back(std::move(parts));
  }
  return out;
}

}  // namespace fm::pipeline
