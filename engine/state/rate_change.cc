#include "engine/state/rate_change.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "optim/lr_schedule.h"

namespace fm::engine {
namespace {

using nlohmann::json;
using optim::SchedulerOptions;

const optim::SchedulerRow* row_named(const std::string& name) {
  for (const auto rows : {optim::deepspeed_schedules(), optim::trainer_schedules()}) {
    const auto at = std::ranges::find(rows, name, &optim::SchedulerRow::name);
    if (at != rows.end()) return *at;
  }
  return nullptr;
}

// What engine/state/run_facts.cc wrote.
struct SetParam {
  const json& value;
  SchedulerOptions& to;

  void operator()(optim::WarmupType SchedulerOptions::*at) const {
    to.*at = value == "log" ? optim::WarmupType::kLog : optim::WarmupType::kLinear;
  }
  void operator()(optim::Shape SchedulerOptions::*at) const {
    to.*at = value == "linear"   ? optim::Shape::kLinear
             : value == "cosine" ? optim::Shape::kCosine
                                 : optim::Shape::kOneMinusSqrt;
  }
  template <class Value>
  void operator()(std::optional<Value> SchedulerOptions::*at) const {
    (to.*at).reset();
    if (!value.is_null()) to.*at = value.get<Value>();
  }
  template <class Value>
  void operator()(Value SchedulerOptions::*at) const {
    to.*at = value.get<Value>();
  }
};

// The rate of the next update as the saved run would have made it.
std::optional<double> saved_rate(const json& saved, std::int64_t applied) {
  const optim::SchedulerRow* const row = row_named(saved.at("scheduler").get<std::string>());
  if (row == nullptr) return std::nullopt;
  SchedulerOptions scheduler;
  scheduler.rule = row;
  for (const optim::SchedulerParam& param : row->params) {
    std::visit(SetParam{saved.at(param.name), scheduler}, param.value);
  }
  return optim::rates(scheduler, saved.at("lr").get<double>(), applied).lr;
}

}  // namespace

std::string rate_change(const std::string& saved, const TrainOptions& now, std::int64_t applied) {
  std::optional<double> before;
  try {
    if (!saved.empty()) before = saved_rate(json::parse(saved), applied);
  } catch (const json::exception&) {
    return "";  // of a build that saved other facts
  }
  const double after = optim::rates(now.scheduler, now.optimizer.lr, applied).lr;
  if (!before || std::abs(*before - after) <= 1e-9 * std::abs(after)) return "";
  char text[160];
  std::snprintf(text, sizeof(text),
                "the learning rate of the next step is %.2e, it would have been %.2e", after,
                *before);
  return text;
}

}  // namespace fm::engine
