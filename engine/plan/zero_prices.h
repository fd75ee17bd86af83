// What the choices of ZeRO 2 and 3 beside a pipeline cost: bytes on the wire against memory.
#pragma once

#include <string>
#include <vector>

#include "engine/plan/run_plan.h"

namespace fm::engine {

// One way to run the same step, of the pipe rank that sends, or needs, the most.
struct ZeroPrice {
  core::Reductions reductions = core::Reductions::kOfStage;
  core::Regather regather = core::Regather::kMicro;
  core::Bytes sent;    // per rank and step
  core::Bytes memory;  // per rank
  bool chosen = false;
};

// Empty where there is no choice: one data rank, or ZeRO 0 and 1. Throws as make_run_plan does.
std::vector<ZeroPrice> zero_prices(const TrainOptions& options, const model::Model& model,
                                   const WorldShape& world);

// "gradients reduced once per step, weights gathered once per phase: 1.2 MB sent per rank and step,
// 3.0 MB of memory (reduce_every_micro false, regather phase; this run)"
std::string text_of(const ZeroPrice& price, int zero_stage);

}  // namespace fm::engine
