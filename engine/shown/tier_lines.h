// What --plan says of state that sleeps: bytes of each tier, moves of a step, its time, and how
// fast drives wear.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/plan/tier_forecast.h"
#include "engine/plan/time_estimate.h"

namespace fm::engine {

// The drives of one host, together.
struct PlanDrives {
  std::optional<DriveRate> rate = {};  // absent: nothing is said of the time
  std::string rate_from = {};          // "--nvme_rate", "measured"
  std::string problem = {};            // why it could not be measured, or ""
  double endurance = 0.0;              // bytes that may be written in their life; 0: not known
  double size = 0.0;                   // bytes; 0: not known
  std::optional<core::Bytes> free = {};
};

struct TierPlan {
  std::vector<TierForecast> ranks;  // by pipe rank
  TierForecast host;                // of all ranks of the fullest host
  int ranks_of_host = 1;
  // Of the slowest rank; absent: no byte moves, or no rate is known. Without the rate of computing
  // it is the moves'.
  std::optional<TierTime> time = {};
  bool computing_known = false;
};

// `computes`: all ranks together; absent: not known.
TierPlan tier_plan(const RunPlan& plan, int ranks_per_host, const std::optional<StepRate>& computes,
                   const PlanDrives& drives);

// Lines that end in "\n"; "" where nothing sleeps. `where`: "optimizer on NVMe (/nvme0)".
std::string tier_text(const TierPlan& tiers, const std::string& where, const PlanDrives& drives);
// One JSON object.
std::string tier_json(const TierPlan& tiers, const PlanDrives& drives);

// "--schedule layer-major would move 3.1 times fewer bytes"; "" where it would not help.
std::string layer_major_hint(const TierForecast& now, const TierForecast& layer_major);

}  // namespace fm::engine
