#include "engine/plan/zero_prices.h"

#include <algorithm>

#include "core/check.h"
#include "core/text.h"

namespace fm::engine {
namespace {

ZeroPrice price_of(const RunPlan& plan) {
  ZeroPrice price;
  for (int rank = 0; rank < plan.mesh.pipe; ++rank) {
    core::Bytes sent;
    for (const auto& [picture, bytes] : plan.wire_bytes(rank)) sent += bytes;
    price.sent = std::max(price.sent, sent);
    price.memory = std::max(price.memory, plan.memory(rank).total());
  }
  return price;
}

}  // namespace

std::vector<ZeroPrice> zero_prices(const TrainOptions& options, const model::Model& model,
                                   const WorldShape& world) {
  const RunPlan plan = make_run_plan(options, model, world);
  if (options.zero_stage < 2 || plan.mesh.shards() == 1) return {};
  const bool gathers = plan.rules.plan.params == core::Home::kOneSliceEach;
  std::vector<ZeroPrice> prices;
  for (const auto reductions : {core::Reductions::kOfStage, core::Reductions::kOncePerStep}) {
    for (const auto regather : {core::Regather::kMicro, core::Regather::kPhase}) {
      // Tiles are gathered for each use.
      if (regather == core::Regather::kPhase && (!gathers || !model.tiles.empty())) continue;
      TrainOptions other = options;
      other.reductions = reductions;
      other.regather = regather;
      const RunPlan made = make_run_plan(other, model, world);
      ZeroPrice price = price_of(made);
      price.reductions = reductions;
      price.regather = made.rules.plan.regather;
      price.chosen = reductions == options.reductions && (!gathers || regather == options.regather);
      prices.push_back(price);
    }
  }
  return prices;
}

std::string text_of(const ZeroPrice& price, int zero_stage) {
  const bool once = price.reductions == core::Reductions::kOncePerStep;
  const bool by_phase = price.regather == core::Regather::kPhase;
  const bool by_unit = price.regather == core::Regather::kUnit;
  const char* const gathers = zero_stage < 3 ? ""
                              : by_phase     ? ", weights gathered once per phase"
                              : by_unit      ? ", weights gathered once per layer and phase"
                                             : ", weights gathered for every micro-batch";
  return core::concat("gradients reduced ", once ? "once per step" : "after every micro-batch",
                      gathers, ": ", core::human(price.sent), " sent per rank and step, ",
                      core::human(price.memory), " of memory (reduce_every_micro ",
                      once ? "false" : "true",
                      zero_stage < 3 ? ""
                      : by_phase     ? ", regather phase"
                                     : ", regather micro",
                      price.chosen ? "; this run)" : ")");
}

}  // namespace fm::engine
