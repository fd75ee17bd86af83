#include "engine/run_identity.h"

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/text.h"

namespace fm::engine {
namespace {

using Json = nlohmann::json;

const char* name_of(SchedulerKind kind) {
  switch (kind) {
    case SchedulerKind::kConstant: return "constant";
    case SchedulerKind::kWarmup: return "WarmupLR";
    case SchedulerKind::kWarmupDecay: return "WarmupDecayLR";
    case SchedulerKind::kWarmupCosine: return "WarmupCosineLR";
  }
  return "?";
}

// "rope_theta: 10000.0 in the checkpoint, 500000.0 now" for every key that both have.
std::vector<std::string> differences(const std::string& saved_text, const std::string& now_text) {
  if (saved_text.empty() || now_text.empty()) return {};
  const Json saved = Json::parse(saved_text);
  const Json now = Json::parse(now_text);
  std::vector<std::string> out;
  for (const auto& [key, value] : now.items()) {
    if (!saved.contains(key) || saved[key] == value) continue;
    out.push_back(
        core::concat(key, ": ", saved[key].dump(), " in the checkpoint, ", value.dump(), " now"));
  }
  return out;
}

constexpr std::string_view kPath = " path=";

// Of data_text(), or of an older build's "KIND PATH bytes=...".
std::string fingerprint_of(const std::string& data) {
  const std::size_t path = data.find(kPath);
  if (path != std::string::npos) return data.substr(0, path);
  const std::size_t kind = data.find(' ');
  const std::size_t bytes = data.rfind(" bytes=");
  if (kind == std::string::npos || bytes == std::string::npos) return data;
  return data.substr(0, kind) + data.substr(bytes);
}

}  // namespace

std::string data_text(const std::string& fingerprint, const std::string& path) {
  return core::concat(fingerprint, kPath, path);
}

std::string optimization_values(const TrainOptions& options, std::int64_t train_batch) {
  const OptimizerOptions& rule = options.optimizer;
  const SchedulerOptions& schedule = options.scheduler;
  Json values = {{"lr", rule.lr},
                 {"weight_decay", rule.weight_decay},
                 {"gradient_clipping", options.gradient_clipping},
                 {"train_batch_size", train_batch},
                 {"loss_reduction",
                  options.loss_reduction == LossReduction::kToken ? "token" : "mean_of_means"},
                 {"no_decay", Json::array({options.no_decay.norm, options.no_decay.bias,
                                           options.no_decay.embedding})},
                 {"scheduler", name_of(schedule.kind)}};
  for (const optim::OptimizerParam& param : rule.rule->params) {
    values[param.name] = std::visit([&](auto at) { return Json(rule.*at); }, param.value);
  }
  if (schedule.kind != SchedulerKind::kConstant) {
    values.update(
        {{"warmup_min_lr", schedule.warmup_min_lr},
         {"warmup_max_lr", schedule.warmup_max_lr ? Json(*schedule.warmup_max_lr) : Json(nullptr)},
         {"warmup_num_steps", schedule.warmup_num_steps},
         {"total_num_steps", schedule.total_num_steps},
         {"warmup_min_ratio", schedule.warmup_min_ratio},
         {"cos_min_ratio", schedule.cos_min_ratio},
         {"warmup_type", schedule.warmup_type == WarmupType::kLog ? "log" : "linear"}});
  }
  return values.dump();
}

std::vector<std::string> compare_runs(const RunIdentity& saved, const RunIdentity& now) {
  FM_USER_CHECK(saved.optimizer == now.optimizer,
                "a run resumes with the optimizer it was saved with; use the same, or --resume "
                "never with another --output_dir (checkpoint: ",
                saved.optimizer, ", now: ", now.optimizer, ")");
  FM_USER_CHECK(fingerprint_of(saved.data) == fingerprint_of(now.data),
                "a run resumes on the data it was saved with, or its position would mean nothing;"
                " use the same data, --max_seq_len and --seed, or start anew from the exported "
                "model with --init_ckpt and another --output_dir (checkpoint: ",
                saved.data, ", now: ", now.data, ")");
  const std::vector<std::string> model = differences(saved.model, now.model);
  FM_USER_CHECK(model.empty(),
                "a run resumes the model it was saved with: these weights mean nothing to another "
                "function; use the same config.json, or start anew with another --output_dir (",
                core::join(model, "; "), ")");
  std::vector<std::string> warnings;
  const std::vector<std::string> rule = differences(saved.optimization, now.optimization);
  if (!rule.empty()) {
    warnings.push_back("the run goes on with other numbers than it was saved with: " +
                       core::join(rule, "; "));
  }
  // Older builds saved the GEMM library only, with which the text begins.
  const bool is_older = saved.model.empty() && now.arithmetic.starts_with(saved.arithmetic);
  if (saved.arithmetic != now.arithmetic && !is_older) {
    warnings.push_back(core::concat("the checkpoint was computed with ", saved.arithmetic,
                                    ", this run uses ", now.arithmetic,
                                    ": losses agree to rounding, not bit for bit"));
  }
  return warnings;
}

}  // namespace fm::engine
