#include "engine/pipe_prediction.h"

#include <nlohmann/json.hpp>

#include "engine/plan_simulation.h"

namespace fm::engine {
namespace {

using pipeline::Op;

// The place of each unit's chunk among those of its rank.
std::vector<int> chunk_of_unit(const pipeline::Placement& units) {
  std::vector<int> chunks_of_rank(static_cast<std::size_t>(units.pipe_ranks()), 0);
  std::vector<int> out(static_cast<std::size_t>(units.unit_count()), 0);
  for (const pipeline::Chunk& chunk : units.chunks()) {
    const int nth = chunks_of_rank[static_cast<std::size_t>(chunk.pipe_rank)]++;
    for (int unit = chunk.units.first; unit < chunk.units.last; ++unit) {
      out[static_cast<std::size_t>(unit)] = nth;
    }
  }
  return out;
}

bool is_shown(Op op) {
  return pipeline::row_of(op).forwards > 0.0 || op == Op::kGather || op == Op::kSendAct ||
         op == Op::kSendGrad;
}

struct Unit {
  double scale;
  const char* name;
};

Unit unit_of(const TrainOptions& options) {
  return options.unit_times   ? Unit{1e-3, "ms"}
         : options.plan_times ? Unit{1.0, "--plan_times"}
                              : Unit{1e-9, "GFLOP"};
}

// By pipe rank.
nlohmann::json events_of(const std::vector<std::vector<pipeline::TimedInstruction>>& timeline,
                         const pipeline::Placement& units, double scale) {
  nlohmann::json ranks = nlohmann::json::array();
  for (const auto& of_rank : timeline) {
    nlohmann::json events = nlohmann::json::array();
    for (const pipeline::TimedInstruction& one : of_rank) {
      if (!is_shown(one.at.op)) continue;
      events.push_back({pipeline::row_of(one.at.op).trace.name, one.at.micro, units.unit_of(one.at),
                        one.begin * scale, one.end * scale});
    }
    ranks.push_back(std::move(events));
  }
  return ranks;
}

}  // namespace

std::string pipe_prediction(const TrainOptions& options, const RunPlan& plan) {
  const Unit unit = unit_of(options);
  return nlohmann::json{
      {"schedule", plan.schedule},
      {"micros", static_cast<unsigned>(plan.rules.micros)},
      {"data_ranks", static_cast<unsigned>(plan.mesh.data)},
      {"unit", unit.name},
      {"chunk_of_unit", chunk_of_unit(plan.units())},
      {"ranks", events_of(simulate_plan(options, plan).timeline, plan.units(), unit.scale)}}
      .dump();
}

std::string pipe_prediction(const TrainOptions& options, const ScheduleStudy& study) {
  const Unit unit = unit_of(options);
  return nlohmann::json{{"schedule", study.account.schedule},
                        {"micros", static_cast<unsigned>(study.account.shape.micros)},
                        {"data_ranks", 1U},
                        {"unit", unit.name},
                        {"chunk_of_unit", chunk_of_unit(study.units)},
                        {"ranks", events_of(study.timeline, study.units, unit.scale)}}
      .dump();
}

}  // namespace fm::engine
