#include "zero/insert_zero.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/check.h"

namespace fm::zero {
namespace {

using pipeline::Instruction;
using pipeline::Op;
using pipeline::Placement;
using pipeline::Program;

// Gather before each use, release after it; a release directly followed by a gather of the same
// unit is no move at all.
Program with_gathers(const Program& program, const Placement& units) {
  Program out;
  for (const Instruction& at : program) {
    if (!units.reads_weights(at)) {
      out.push_back(at);
      continue;
    }
    const int unit = units.unit_of(at);
    if (!out.empty() && out.back() == Instruction{Op::kRelease, -1, unit}) {
      out.pop_back();
    } else {
      out.push_back({Op::kGather, -1, unit});
    }
    out.push_back(at);
    out.push_back({Op::kRelease, -1, unit});
  }
  return out;
}

// Units from their first to their last use in each phase.
Program with_phase_gathers(const Program& program, const Placement& units) {
  std::map<std::size_t, int> releases;  // behind an instruction: the unit
  std::map<int, std::size_t> last_use;  // of the units of the phase
  std::vector<bool> gathers(program.size(), false);
  int chunk = -1;
  const auto end_phase = [&] {
    for (const auto& [unit, at] : last_use) releases[at] = unit;
    last_use.clear();
  };
  for (std::size_t at = 0; at < program.size(); ++at) {
    if (!units.reads_weights(program[at])) continue;
    const int unit = units.unit_of(program[at]);
    if (units.chunk_of(unit) != chunk) end_phase();
    chunk = units.chunk_of(unit);
    gathers[at] = !last_use.contains(unit);
    last_use[unit] = at;
  }
  end_phase();
  Program out;
  for (std::size_t at = 0; at < program.size(); ++at) {
    if (gathers[at]) out.push_back({Op::kGather, -1, units.unit_of(program[at])});
    out.push_back(program[at]);
    if (const auto done = releases.find(at); done != releases.end()) {
      out.push_back({Op::kRelease, -1, done->second});
    }
  }
  return out;
}

// Units from their first to their last use in forward, and in backward. Tiles in each pass, and the
// head before and behind its tiles.
Program with_unit_gathers(const Program& program, const Placement& units) {
  using Use = std::pair<int, int>;  // unit, phase
  const auto use_of = [&](const Instruction& at) {
    const int unit = units.unit_of(at);
    const bool around = unit == units.head() && units.head_tiles().count() > 0;
    if (units.is_tile(unit) || around) return Use{unit, static_cast<int>(at.op)};
    return Use{unit, at.op != Op::kForward && at.op != Op::kLoss ? 1 : 0};
  };
  std::map<Use, int> left;
  for (const Instruction& at : program) {
    if (units.reads_weights(at)) ++left[use_of(at)];
  }
  std::set<Use> gathered;
  Program out;
  for (const Instruction& at : program) {
    const bool reads = units.reads_weights(at);
    if (reads && gathered.insert(use_of(at)).second) {
      out.push_back({Op::kGather, -1, units.unit_of(at)});
    }
    out.push_back(at);
    if (reads && --left[use_of(at)] == 0) out.push_back({Op::kRelease, -1, units.unit_of(at)});
  }
  return out;
}

Program with_gathers_of(core::Regather regather, const Program& program, const Placement& units) {
  switch (regather) {
    case core::Regather::kMicro: return with_gathers(program, units);
    case core::Regather::kPhase: return with_phase_gathers(program, units);
    case core::Regather::kUnit: return with_unit_gathers(program, units);
  }
  return program;
}

// After every gradient, or after the last one of a unit.
Program with_reductions(const Program& program, bool every_micro, const Placement& units) {
  std::map<int, int> left;  // gradients still to be written, by unit
  for (const Instruction& at : program) {
    if (pipeline::row_of(at.op).writes_gradient) ++left[units.unit_of(at)];
  }
  Program out;
  for (const Instruction& at : program) {
    out.push_back(at);
    if (!pipeline::row_of(at.op).writes_gradient) continue;
    const int unit = units.unit_of(at);
    const bool last = --left[unit] == 0;
    if (every_micro) {
      out.push_back({Op::kReduce, at.micro, unit});
    } else if (last) {
      out.push_back({Op::kReduce, -1, unit});
    }
  }
  return out;
}

void append_boundary(Program& out, const core::ShardPlan& plan, const Placement& units,
                     int pipe_rank) {
  if (units.has_tied_end(pipe_rank)) out.push_back({Op::kReduceTied, -1, -1});
  out.push_back({Op::kNorm, -1, -1});
  for (const int unit : units.units_of(pipe_rank)) {
    if (!units.has_backward(unit)) continue;
    out.push_back({Op::kUpdate, -1, unit});
    if (plan.publishes()) out.push_back({Op::kPublish, -1, unit});
  }
}

}  // namespace

Program insert_zero(const Program& program, const core::ShardPlan& plan, const Placement& units,
                    int pipe_rank) {
  FM_CHECK(pipe_rank >= 0 && pipe_rank < units.pipe_ranks(), "units are placed on ",
           units.pipe_ranks(), " pipe ranks, and none is ", pipe_rank);
  const bool trains = !units.evaluates();
  Program body = trains ? with_reductions(program, plan.reduce_every_micro, units) : program;
  if (plan.params == core::Home::kOneSliceEach) {
    body = with_gathers_of(plan.regather, body, units);
  }
  Program out;
  if (trains && units.has_head(pipe_rank)) out.push_back({Op::kCount, -1, -1});
  for (const Instruction& at : body) {
    if (trains && at.op == Op::kReport) append_boundary(out, plan, units, pipe_rank);
    out.push_back(at);
  }
  return out;
}

}  // namespace fm::zero
