#include "engine/plan/tier_forecast.h"

#include <algorithm>
#include <map>
#include <set>

#include "pipeline/ring_places.h"
#include "zero/sleep_plan.h"

namespace fm::engine {
namespace {

using core::Bytes;
using pipeline::Op;
using zero::Role;

constexpr std::initializer_list<Role> kSleepers = {Role::kMoment, Role::kMaster, Role::kGrads,
                                                   Role::kParams};
// Bytes per element that an update of AdamW reads and writes, and how many of them a rank's memory
// gives in a second.
constexpr double kUpdateBytes = 28.0;
constexpr double kMemoryRate = 8e9;

class Moves {
 public:
  Moves(const RunPlan& plan, const zero::Layout& layout)
      : plan_(plan), layout_(layout), sleep_(layout, kSleepers) {}

  // Trained flat parameters of a unit.
  std::vector<int> trained_of(int unit) const {
    std::vector<int> found;
    for (int at = 0; at < layout_.trained; ++at) {
      if (layout_.at(at).unit == unit) found.push_back(at);
    }
    return found;
  }

  Bytes read_by(const pipeline::Instruction& at) const {
    if (at.op == Op::kGather) return gathered(at.unit);
    if (at.op != Op::kFetch) return {};
    Bytes out = changed(at.unit) + of(at.unit, {Role::kGrads});
    // Masters are what the update reads, where there are any; or what is in a slot already.
    const bool here = pipeline::takes_from_slot(plan_.rules.gradients, plan_.units(), at.unit);
    if (layout_.has_master() || layout_.beside_device || here) out -= of(at.unit, {Role::kParams});
    return out;
  }

  Bytes written_by(const pipeline::Instruction& at) const {
    if (at.op == Op::kRest) return of(at.unit, {Role::kGrads});
    return at.op == Op::kStore ? changed(at.unit) : Bytes(0);
  }

  double updated(int unit) const {
    double elements = 0.0;
    for (const int flat_param : trained_of(unit)) {
      elements += static_cast<double>(layout_.at(flat_param).optimizer.count.count());
    }
    return elements;
  }

 private:
  Bytes of(int unit, std::initializer_list<Role> roles) const {
    Bytes out;
    for (const int flat_param : trained_of(unit)) out += sleep_.moved_by(flat_param, roles);
    return out;
  }
  Bytes changed(int unit) const { return of(unit, {Role::kMoment, Role::kMaster, Role::kParams}); }
  Bytes gathered(int unit) const {
    std::set<int> homes;
    for (const int flat_param : layout_.read_by(unit)) homes.insert(layout_.home_of(flat_param));
    Bytes out;
    for (const int home : homes) out += sleep_.moved_by(home, {Role::kParams});
    return out;
  }

  const RunPlan& plan_;
  const zero::Layout& layout_;
  const zero::SleepPlan sleep_;
};

// Whose Store makes the place free that a Fetch takes: in the step before, too.
class PlaceOwners {
 public:
  explicit PlaceOwners(const pipeline::ProgramRules& rules, const pipeline::Program& program)
      : rules_(rules) {
    for (const pipeline::Instruction& at : program) note(at);
  }
  int behind(const pipeline::Instruction& at) const {
    if (at.op != Op::kFetch) return -1;
    const auto found = last_.find(place_of(at.unit));
    return found == last_.end() ? -1 : found->second;
  }
  void note(const pipeline::Instruction& at) {
    if (at.op == Op::kStore) last_[place_of(at.unit)] = at.unit;
  }

 private:
  // The larger one, where it has two.
  int place_of(int unit) const {
    return pipeline::ring_places(rules_.units, unit, rules_.ring()).back();
  }

  const pipeline::ProgramRules& rules_;
  std::map<int, int> last_;  // by place: the last unit that was stored there
};

bool updates_before_norm(const pipeline::Program& program) {
  const auto update = std::ranges::find(program, Op::kUpdate, &pipeline::Instruction::op);
  const auto norm = std::ranges::find(program, Op::kNorm, &pipeline::Instruction::op);
  return update < norm;
}

// A head in tiles makes the logits three times: in its forward, for its loss, and for gradients.
double third_pass(const pipeline::Instruction& at, const pipeline::Placement& units) {
  return at.op == Op::kLoss && units.head_tiles().count() > 0 ? 1.0 : 0.0;
}

}  // namespace

TierForecast tier_forecast(const RunPlan& plan, int pipe_rank) {
  const zero::Layout layout = plan.layout(pipe_rank, 0);
  const pipeline::Program& program = plan.train[static_cast<std::size_t>(pipe_rank)];
  TierForecast out;
  for (const zero::Reservation& each : layout.reservations) {
    const Bytes bytes = core::bytes_of(each.share, each.element);
    if (each.tier == core::Tier::kHost) out.host += bytes;
    if (each.in_ring) out.ring += bytes;
  }
  out.nvme = zero::SleepPlan(layout, kSleepers).total();
  zero::Layout less = layout;
  less.save_slots = 0;
  const Bytes without_saves = zero::SleepPlan(less, kSleepers).total();
  less.tier_slots = 1;
  out.save_slot = out.nvme - without_saves;
  out.second_slot = without_saves - zero::SleepPlan(less, kSleepers).total();
  for (const TimedInstruction& at : timed_program(plan, pipe_rank, 0.0)) {
    out.read += at.read;
    out.written += at.written;
  }
  out.gradients_rest = layout.sleeps(Role::kGrads);
  out.updates_early = out.nvme.count() > 0 && updates_before_norm(program);
  return out;
}

std::vector<TimedInstruction> timed_program(const RunPlan& plan, int pipe_rank, double flops) {
  const zero::Layout layout = plan.layout(pipe_rank, 0);
  const Moves moves(plan, layout);
  const pipeline::Program& program = plan.train[static_cast<std::size_t>(pipe_rank)];
  PlaceOwners owners(plan.rules, program);
  std::vector<TimedInstruction> out;
  for (const pipeline::Instruction& at : program) {
    const double forwards = pipeline::row_of(at.op).forwards;
    TimedInstruction timed{at.op, at.unit, 0.0, moves.read_by(at), moves.written_by(at)};
    timed.behind = owners.behind(at);
    const bool of_state = at.op == Op::kFetch || at.op == Op::kStore;
    if (of_state) timed.arrays = std::max(1, layout.moments + (layout.has_master() ? 1 : 0));
    owners.note(at);
    if (forwards > 0.0) {
      timed.unit = plan.units().unit_of(at);
      const auto unit = static_cast<std::size_t>(timed.unit);
      const double done = forwards + third_pass(at, plan.units());
      if (flops > 0.0) timed.seconds = done * plan.footprints[unit].forward_flops / flops;
    }
    if (at.op == Op::kUpdate && flops > 0.0) {
      timed.seconds = moves.updated(at.unit) * kUpdateBytes / kMemoryRate;
    }
    out.push_back(timed);
  }
  return out;
}

}  // namespace fm::engine
