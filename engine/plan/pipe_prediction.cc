#include "engine/plan/pipe_prediction.h"

#include <nlohmann/json.hpp>

#include "engine/plan/plan_simulation.h"

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

struct Predicted {
  const std::string& schedule;
  int micros;
  int data_ranks;
  const pipeline::Placement& units;
  const std::vector<std::vector<pipeline::TimedInstruction>>& timeline;  // by pipe rank
};

std::string json_of(const TrainOptions& options, const Predicted& predicted) {
  const Unit unit = unit_of(options);
  nlohmann::json json = {{"schedule", predicted.schedule},
                         {"micros", static_cast<unsigned>(predicted.micros)},
                         {"data_ranks", static_cast<unsigned>(predicted.data_ranks)},
                         {"unit", unit.name},
                         {"chunk_of_unit", chunk_of_unit(predicted.units)},
                         {"ranks", nlohmann::json::array()}};
  for (const auto& of_rank : predicted.timeline) {
    nlohmann::json events = nlohmann::json::array();
    for (const pipeline::TimedInstruction& one : of_rank) {
      if (!is_shown(one.at.op)) continue;
      events.push_back({pipeline::row_of(one.at.op).trace.name, one.at.micro,
                        predicted.units.unit_of(one.at), one.begin * unit.scale,
                        one.end * unit.scale});
    }
    json["ranks"].push_back(std::move(events));
  }
  return json.dump();
}

}  // namespace

std::string pipe_prediction(const TrainOptions& options, const RunPlan& plan) {
  return json_of(options, {plan.schedule, plan.rules.micros, plan.mesh.data, plan.units(),
                           simulate_plan(plan).timeline});
}

std::string pipe_prediction(const TrainOptions& options, const ScheduleStudy& study) {
  return json_of(options, {study.account.schedule, study.account.shape.micros, 1, study.units,
                           study.timeline});
}

}  // namespace fm::engine
