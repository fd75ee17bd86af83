#include "engine/shown/measured_time.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/check.h"
#include "core/text.h"

namespace fm::engine {
namespace {

using nlohmann::json;

// What decides how long a step takes.
bool alike(const json& before, const json& now) {
  if (before.value("ranks", 0) != now.value("ranks", 0)) return false;
  const json facts = before.value("facts", json::object());
  for (const char* name :
       {"train_batch_size", "train_micro_batch_size_per_gpu", "--max_seq_len", "precision",
        "zero_optimization.stage", "activation_checkpointing", "--pipe_parallel_size", "--schedule",
        "sequence_parallel_size", "LoRA", "--train", "--freeze"}) {
    if (facts.value(name, json()) != now.at("facts").value(name, json())) return false;
  }
  return true;
}

}  // namespace

std::optional<MeasuredTime> measured_time(const std::string& start, const std::string& now) {
  constexpr std::size_t kLast = 50;
  std::vector<std::string> lines = core::split(start, '\n');
  const json begin = json::parse(lines.front(), nullptr, false);
  if (!begin.is_object() || !begin.contains("start")) return std::nullopt;
  if (!alike(begin["start"], json::parse(now)["start"])) return std::nullopt;
  std::vector<json> rows;
  for (const std::string& line : lines) {
    if (!line.starts_with("{\"step\":")) continue;
    json row = json::parse(line, nullptr, false);
    if (row.is_object() && row.value("step_time", 0.0) > 0.0) rows.push_back(std::move(row));
  }
  if (rows.size() < 2) return std::nullopt;
  rows.erase(rows.begin());
  if (rows.size() > kLast) rows.erase(rows.begin(), rows.end() - kLast);
  std::vector<double> seconds;
  for (const json& row : rows) seconds.push_back(row["step_time"].get<double>());
  const auto middle = seconds.begin() + std::ssize(seconds) / 2;
  std::nth_element(seconds.begin(), middle, seconds.end());
  return MeasuredTime{*middle, rows.front()["step"].get<std::int64_t>(),
                      rows.back()["step"].get<std::int64_t>()};
}

std::string text_of(const MeasuredTime& time, std::int64_t steps) {
  return core::concat("about ", core::human_duration(time.seconds), " per step, ",
                      core::human_duration(time.seconds * static_cast<double>(steps)), " for ",
                      core::counted(steps, "step"), " (the median of steps ", time.first, " to ",
                      time.last, ")");
}

}  // namespace fm::engine
