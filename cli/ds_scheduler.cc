// The scheduler block (deepspeed/runtime/lr_schedules.py). Types are compared in exact case.
#include <algorithm>

#include "cli/ds_config.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::cli {
namespace {

struct SchedulerType {
  const char* name;
  engine::SchedulerKind kind;
  std::vector<std::string> params;
};

const std::vector<SchedulerType> kTypes = {
    {"WarmupLR",
     engine::SchedulerKind::kWarmup,
     {"warmup_min_lr", "warmup_max_lr", "warmup_num_steps", "warmup_type", "last_batch_iteration"}},
    {"WarmupDecayLR",
     engine::SchedulerKind::kWarmupDecay,
     {"total_num_steps", "warmup_min_lr", "warmup_max_lr", "warmup_num_steps", "warmup_type",
      "last_batch_iteration"}},
    {"WarmupCosineLR",
     engine::SchedulerKind::kWarmupCosine,
     {"total_num_steps", "warmup_min_ratio", "warmup_num_steps", "cos_min_ratio", "warmup_type",
      "last_batch_iteration"}},
};

// Classes of torch.optim.lr_scheduler, and DeepSpeed's others.
const std::vector<std::string> kLaterTypes = {"LRRangeTest",
                                              "OneCycle",
                                              "ChainedScheduler",
                                              "ConstantLR",
                                              "CosineAnnealingLR",
                                              "CosineAnnealingWarmRestarts",
                                              "CyclicLR",
                                              "ExponentialLR",
                                              "LambdaLR",
                                              "LinearLR",
                                              "MultiStepLR",
                                              "MultiplicativeLR",
                                              "OneCycleLR",
                                              "PolynomialLR",
                                              "ReduceLROnPlateau",
                                              "SequentialLR",
                                              "StepLR"};

constexpr double kDecayMaxLr = 0.001;  // WarmupDecayLR's own default of warmup_max_lr

std::string param(const char* name) { return std::string("scheduler.params.") + name; }

void apply_warmup(const Settings& settings, Findings& findings,
                  engine::SchedulerOptions& scheduler) {
  const std::string steps = param("warmup_num_steps");
  // Hugging Face's Trainer fills 0 here unless it was told otherwise; 1 is the least that is legal.
  scheduler.warmup_num_steps = settings.asks_auto(steps) ? 1 : settings.integer(steps, 1000);
  if (settings.asks_auto(steps)) {
    findings.notes.push_back("\"auto\": " + steps +
                             " is 1, as from Hugging Face's Trainer without a warm-up of its own; "
                             "write a number to warm up longer");
  }
  FM_USER_CHECK(
      scheduler.warmup_num_steps > 0,
      "scheduler.params.warmup_num_steps must be a whole number > 0; 1 gives the shortest "
      "warm-up, two steps at warmup_min_lr, and without a scheduler block there is none (",
      settings.where(steps), ": ", scheduler.warmup_num_steps, ")");
  const std::string type = settings.text(param("warmup_type"), "log");
  scheduler.warmup_type = type == "linear" ? engine::WarmupType::kLinear : engine::WarmupType::kLog;
  if (type != "linear" && type != "log") {
    findings.notes.push_back("scheduler.params.warmup_type \"" + type +
                             "\" is not log or linear: log is used, as in DeepSpeed");
  }
}

void apply_limits(const Settings& settings, double base_lr, engine::SchedulerOptions& scheduler) {
  scheduler.warmup_min_lr = checked_number(settings, param("warmup_min_lr"), 0.0);
  const std::string max_lr = param("warmup_max_lr");
  if (settings.get(max_lr) != nullptr) {
    scheduler.warmup_max_lr = checked_number(settings, max_lr, 0.0);
  } else if (settings.raw(max_lr) != nullptr) {  // null or "auto"
    scheduler.warmup_max_lr = base_lr;
  } else if (scheduler.kind == engine::SchedulerKind::kWarmupDecay) {
    scheduler.warmup_max_lr = kDecayMaxLr;
  }
  scheduler.warmup_min_ratio = checked_number(settings, param("warmup_min_ratio"), 0.0);
  scheduler.cos_min_ratio = checked_number(settings, param("cos_min_ratio"), 0.0001);
}

void apply_total(const Settings& settings, std::int64_t train_steps, Findings& findings,
                 engine::SchedulerOptions& scheduler) {
  if (scheduler.kind == engine::SchedulerKind::kWarmup) return;
  const std::string path = param("total_num_steps");
  scheduler.total_num_steps = settings.asks_auto(path) ? train_steps : settings.integer(path, 0);
  FM_USER_CHECK(scheduler.total_num_steps > 0, settings.text("scheduler.type", ""), " requires ",
                path, " > 0; write it, or \"auto\" for --train_steps (", settings.where(path), ")");
  if (scheduler.total_num_steps < scheduler.warmup_num_steps) {
    findings.notes.push_back(core::concat("scheduler: total_num_steps ", scheduler.total_num_steps,
                                          " is less than warmup_num_steps ",
                                          scheduler.warmup_num_steps));
  }
}

void refuse_type(const Settings& settings, const std::string& type, Findings& findings) {
  std::vector<std::string> names;
  for (const SchedulerType& each : kTypes) names.emplace_back(each.name);
  const bool later = std::find(kLaterTypes.begin(), kLaterTypes.end(), type) != kLaterTypes.end();
  const std::string near = core::nearest(type, names);
  findings.refuse("scheduler.type = \"" + type + "\" (" + settings.where("scheduler.type") + ")",
                  (later ? "it comes later" : "DeepSpeed does not recognize LR scheduler " + type) +
                      (near.empty() || later ? "" : ", did you mean \"" + near + "\"?") +
                      ", today there are " + core::join(names, ", "));
}

}  // namespace

void apply_scheduler(const Settings& settings, Findings& findings, engine::TrainOptions& options) {
  const std::string type = block_type(settings, "scheduler", "WarmupLR", findings);
  if (type.empty()) return;
  const auto row = std::find_if(kTypes.begin(), kTypes.end(),
                                [&](const SchedulerType& each) { return type == each.name; });
  if (row == kTypes.end()) {
    refuse_type(settings, type, findings);
    return;
  }
  check_params(settings, "scheduler.params", type, row->params);
  options.scheduler.kind = row->kind;
  apply_warmup(settings, findings, options.scheduler);
  apply_limits(settings, options.optimizer.lr, options.scheduler);
  apply_total(settings, options.train_steps, findings, options.scheduler);
}

}  // namespace fm::cli
