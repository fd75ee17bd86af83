#include "engine/shown/explain_skip.h"

#include <algorithm>
#include <cstdio>

#include "core/check.h"

namespace fm::engine {
namespace {

// Of all ranks' places, micro-batch major, then world rank; `nowhere` behind all of them.
std::int64_t earliest_of(std::int64_t mine, comm::Communicator& world) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(world.size()));
  world
      .all_gather({&mine, core::Elements(1), core::DType::kI64},
                  {all.data(), core::Elements(world.size()), core::DType::kI64})
      .finish();
  return *std::min_element(all.begin(), all.end());
}

}  // namespace

void explain_skip(const SkippedRun& run, const StepRequest& request, const StepResult& result) {
  const auto found = run.runtime.locate_non_finite(run.stream, request);
  comm::Communicator& world = run.state.world;
  const std::int64_t nowhere = std::int64_t{run.state.plan.rules.micros} * world.size();
  const std::int64_t mine =
      found ? std::int64_t{found->micro} * world.size() + world.rank() : nowhere;
  const std::int64_t earliest = earliest_of(mine, world);
  const bool scaled = run.progress.loss_scale.has_value();
  const std::string head = core::concat(
      "step ", request.step, " skipped, weights unchanged: loss ", result.loss, ", gradient norm ",
      result.grad_norm, scaled ? core::concat(", loss scale ", request.loss_scale) : "");
  if (earliest == nowhere) {
    run.log.warn(head + (scaled ? "; no gradient of a micro-batch is beyond fp16, their sum is"
                                : "; no single gradient is non-finite"));
  } else if (found && mine == earliest) {
    const auto text = core::concat(
        "fmengine: ", head,
        scaled ? "; first gradient beyond fp16: " : "; first non-finite gradient: ",
        found->parameter, ", world rank ", world.rank(), " (pipe rank ", run.state.at.pipe_rank,
        ", data rank ", run.state.at.dp_rank, "), micro-batch ", found->micro, " of step ",
        request.step, ", samples from ", run.progress.samples, "\n");
    std::fputs(text.c_str(), stderr);
  }
}

}  // namespace fm::engine
