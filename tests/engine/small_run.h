// A small training run with ranks as threads, for comparing layouts bit for bit.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/options.h"
#include "engine/plan/run_model.h"
#include "engine/step/rank_state.h"
#include "engine/step/step_runtime.h"

namespace fm::engine {

struct RunTrace {
  std::vector<double> losses;
  std::vector<double> norms;
  std::map<std::string, std::vector<float>> weights;  // after the last step, whole tensors
  std::vector<bool> redone = {};                      // by step, where options.post_validation
  bool operator==(const RunTrace&) const = default;
};

// The odd model of the canonical matrix: hidden 96, 5 layers, 6 heads, 2 KV heads, FFN 250,
// vocabulary 777; a token file of random ids in `folder`. Clipping is active.
TrainOptions small_options(const std::string& folder, bool tied);

// Of a thin Llama with more layers, for schedules of many chunks.
struct ThinModel {
  int layers, hidden, heads, kv_heads, ffn;
};
// The same with that model, 8 micro-batches a step and the canonical order.
TrainOptions thin_options(const std::string& folder, bool tied, const ThinModel& model);

// The device that the options ask for, of one rank; null: this CPU.
std::unique_ptr<core::Device> device_of(const TrainOptions& options, int rank);

// BugError for a name that is none.
const pipeline::ScheduleRow& schedule_named(std::string_view name);

// The steps of one rank's state, on `rows`, or on options.data_path when that is null.
//
// Thread:   the rank's thread; steps are collective.
// Lifetime: everything given outlives it.
class SmallSteps {
 public:
  SmallSteps(const TrainOptions& options, const model::Model& model, RankState& state,
             const data::SampleSource* rows = nullptr);

  StepResult run(int step);  // from 1 on
  // A step that the next one validates; returns the result of the step before, if that was one.
  std::optional<StepResult> run_ahead(int step);
  // The step behind it, and the results of both.
  std::array<StepResult, 2> run_behind(int step);
  void settle() { runtime_.settle(); }

 private:
  std::optional<StepResult> validate(const StepRequest& request);

  const TrainOptions& options_;
  RankState& state_;
  core::PhaseClock clock_;
  std::unique_ptr<data::SampleSource> own_rows_;
  data::BatchStream stream_;
  StepRuntime runtime_;
  bool ahead_ = false;  // the last step is not validated
};

// Runs `steps` steps with pipe_parallel_size x dp_size ranks on `rows`, or on options.data_path
// when that is null.
RunTrace run_small(TrainOptions options, int dp_size, int steps,
                   const data::SampleSource* rows = nullptr);
// The same on devices that the test makes, by rank.
using MakeDevice = std::function<std::unique_ptr<core::Device>(int rank)>;
// How a rank talks then; null: staged through the host.
using MakeLink = std::function<TensorLink(int rank, core::Device& device)>;
RunTrace run_small_on(const MakeDevice& make, TrainOptions options, int dp_size, int steps,
                      const data::SampleSource* rows = nullptr, const MakeLink& link = nullptr);

// The same with the ranks on hosts (comm/meet/world.h: run_ranks_on_hosts).
struct OnHosts {
  RunTrace trace;
  std::vector<core::Bytes> sent;             // to other hosts in all steps, by rank
  std::vector<std::vector<float>> gathered;  // the first unit as each rank reads it
};
OnHosts run_small_on_hosts(const TrainOptions& options, const std::vector<int>& host_of, int steps);

// Calls `look` on each of pipe_parallel_size ranks, behind a step that has settled.
void after_one_step(const TrainOptions& options, const std::function<void(const RankState&)>& look);

// The first difference in words, "" when both are equal bit for bit.
std::string first_difference(const RunTrace& a, const RunTrace& b);

}  // namespace fm::engine
