#include "engine/rank_state.h"

namespace fm::engine {
namespace {

std::vector<zero::GlobalNorm::Part> norm_parts(const RunPlan& plan, const model::Model& model) {
  std::vector<zero::GlobalNorm::Part> parts;
  for (const pipeline::Chunk& chunk : plan.units().chunks()) {
    std::int64_t count = 0;
    for (int unit = chunk.units.first; unit < chunk.units.last; ++unit) {
      const core::ShardMap map{model.table(unit).elements(), plan.mesh.data};
      count += zero::GlobalNorm::numbers_of(map, plan.account.order);
    }
    parts.push_back({chunk.pipe_rank, chunk.units.first, chunk.units.last, count});
  }
  return parts;
}

zero::TiedReduction::Ends tied_ends(const pipeline::Placement& units) {
  return {.embedding = units.owner_of(0), .head = units.owner_of(units.head())};
}

}  // namespace

zero::GroupLayout make_group_layout(const RunPlan& plan, const model::Model& model, int pipe_rank,
                                    int dp_rank) {
  zero::GroupLayout layout;
  layout.plan = plan.rules.plan;
  layout.order = plan.account.order;
  layout.element = model.element;
  layout.dp_size = plan.mesh.data;
  layout.dp_rank = dp_rank;
  layout.micros = plan.rules.micros;
  layout.gradient_slots = plan.account.gradient_slots;
  layout.tied = model.tied;
  layout.one_tied_gradient = plan.units().one_tied_gradient;
  const auto add = [&](int unit, const core::ParamTable& table, bool tied_end, int alias) {
    layout.groups.push_back({unit, tied_end, alias, &table, {table.elements(), plan.mesh.data}});
  };
  for (const int unit : plan.units().units_of(pipe_rank)) add(unit, model.table(unit), false, -1);
  if (model.tied && !layout.one_tied_gradient && plan.units().has_head(pipe_rank)) {
    const int alias = plan.units().has_embedding(pipe_rank) ? 0 : -1;
    add(model.head_unit(), *model.head->tied_params(), true, alias);
  }
  return layout;
}

RankState::RankState(const TrainOptions& options, const RunPlan& run_plan,
                     const model::Model& run_model, comm::Communicator& run_world,
                     core::Ledger& run_ledger)
    : plan(run_plan),
      model(run_model),
      ledger(run_ledger),
      world(run_world),
      at(plan.mesh.position_of(world.rank())),
      dp(world.split(plan.mesh.data_group(world.rank()))),
      pipe(world.split(plan.mesh.pipe_group(world.rank()))),
      numbers(world.split(plan.mesh.data_group(world.rank()))),
      pools(plan.pools(at.pipe_rank)),
      layout(make_group_layout(plan, model, at.pipe_rank, at.dp_rank)),
      params(layout, ledger, *dp),
      grads(layout, ledger, *dp, plan.overlap),
      optimizer(layout, ledger, options.optimizer),
      tied(layout, ledger, *pipe, tied_ends(plan.units())),
      norm(layout, *numbers, *pipe, norm_parts(plan, model)),
      gather_slots(ledger, core::Account::kSlots, core::bytes_of(pools.gather_slot, model.element),
                   pools.gather_slots),
      hidden(ledger, core::Account::kActivations,
             core::bytes_of(plan.account.hidden, model.element), pools.peaks.hidden,
             pipe->memory()),
      kept(ledger, core::Account::kActivations, pools.kept, pools.peaks.kept),
      parked(ledger, core::Account::kActivations, pools.parked, pools.peaks.parked),
      scratch(ledger, core::Account::kScratch, pools.arena) {}

int RankState::tied_group(int unit) const {
  if (!model.tied || unit != model.head_unit()) return -1;
  return layout.one_tied_gradient ? 0 : layout.count() - 1;
}

int RankState::tied_end(int unit) const { return layout.one_tied_gradient ? -1 : tied_group(unit); }

}  // namespace fm::engine
