// The scheduler block (deepspeed/runtime/lr_schedules.py). Types are compared in exact case.
#include <algorithm>

#include "cli/deepspeed/ds_config.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::cli {
namespace {

using optim::SchedulerOptions;

// Classes of torch.optim.lr_scheduler.
const std::vector<std::string> kTorchTypes = {"ChainedScheduler",
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

std::string param(const std::string& name) { return "scheduler.params." + name; }

// Reads one parameter of the row into its place.
struct ReadParam {
  const JsonView& settings;
  const std::string path;
  SchedulerOptions& scheduler;

  bool given() const { return settings.get(path) != nullptr; }
  // Factors of a rate may be any number; rates themselves may not.
  double number(double otherwise) const {
    return path.ends_with("_rate") && !path.ends_with("_lr_rate")
               ? settings.number(path, otherwise)
               : checked_number(settings, path, otherwise);
  }
  void operator()(double SchedulerOptions::*at) const { scheduler.*at = number(scheduler.*at); }
  void operator()(std::int64_t SchedulerOptions::*at) const {
    scheduler.*at = settings.integer(path, scheduler.*at);
    FM_USER_CHECK(scheduler.*at >= 0, path, " must not be negative; correct it (",
                  settings.where(path), ": ", scheduler.*at, ")");
  }
  void operator()(bool SchedulerOptions::*at) const {
    scheduler.*at = settings.flag(path, scheduler.*at);
  }
  void operator()(std::optional<double> SchedulerOptions::*at) const {
    if (given()) scheduler.*at = number(0.0);
  }
  void operator()(std::optional<std::int64_t> SchedulerOptions::*at) const {
    if (given()) scheduler.*at = settings.integer(path, 0);
  }
  void operator()(optim::WarmupType SchedulerOptions::*at) const {
    const bool linear = settings.text(path, "log") == "linear";
    scheduler.*at = linear ? optim::WarmupType::kLinear : optim::WarmupType::kLog;
  }
  void operator()(optim::Shape SchedulerOptions::*) const {}  // the Trainer's alone
};

void check_warmup(const JsonView& settings, Findings& findings, const SchedulerOptions& scheduler) {
  const std::string steps = param("warmup_num_steps");
  FM_USER_CHECK(
      scheduler.warmup_num_steps > 0,
      "scheduler.params.warmup_num_steps must be a whole number > 0; 1 gives the shortest "
      "warm-up, two steps at warmup_min_lr, and without a scheduler block there is none (",
      settings.where(steps), ": ", scheduler.warmup_num_steps, ")");
  const std::string type = settings.text(param("warmup_type"), "log");
  if (type != "linear" && type != "log") {
    findings.notes.push_back("scheduler.params.warmup_type \"" + type +
                             "\" is not log or linear: log is used, as in DeepSpeed");
  }
}

void check_total(const JsonView& settings, Findings& findings, const SchedulerOptions& scheduler) {
  const std::string path = param("total_num_steps");
  FM_USER_CHECK(scheduler.total_num_steps > 0, scheduler.rule->name, " requires ", path,
                " > 0; write it, or \"auto\" for --train_steps (", settings.where(path), ")");
  if (scheduler.total_num_steps < scheduler.warmup_num_steps) {
    findings.notes.push_back(core::concat("scheduler: total_num_steps ", scheduler.total_num_steps,
                                          " is less than warmup_num_steps ",
                                          scheduler.warmup_num_steps));
  }
}

// DeepSpeed requires these whole and above 0.
void check_above_zero(const JsonView& settings, const char* name, std::int64_t value) {
  FM_USER_CHECK(value > 0, param(name), " must be a whole number > 0; correct it (",
                settings.where(param(name)), ": ", value, ")");
}

// As DeepSpeed looks for them: among the defaults of the optimizer, which Muon has none of.
bool has_betas(const engine::TrainOptions& options) {
  return options.optimizer.rule != &optim::kMuon &&
         std::ranges::any_of(options.optimizer.rule->params, [](const auto& each) {
           return std::string_view(each.name) == "betas";
         });
}

void check_one_cycle(const JsonView& settings, Findings& findings,
                     const engine::TrainOptions& options) {
  const SchedulerOptions& at = options.scheduler;
  for (const char* name : {"cycle_min_lr", "cycle_max_lr"}) {
    FM_USER_CHECK(settings.get(param(name)) != nullptr, "OneCycle requires ", param(name),
                  "; write it (", settings.where("scheduler"), ")");
  }
  check_above_zero(settings, "cycle_first_step_size", at.cycle_first_step_size);
  FM_USER_CHECK(at.cycle_second_step_size.value_or(0) >= 0, param("cycle_second_step_size"),
                " must not be negative; correct it (", at.cycle_second_step_size.value_or(0), ")");
  FM_USER_CHECK(at.cycle_min_mom < 1.0 && at.cycle_max_mom < 1.0 && at.decay_mom_rate <= 0.0,
                "the momenta of OneCycle must stay in [0, 1): cycle_min_mom and cycle_max_mom "
                "below 1, decay_mom_rate not above 0; correct them (",
                settings.where("scheduler"), ": ", at.cycle_min_mom, ", ", at.cycle_max_mom, ", ",
                at.decay_mom_rate, ")");
  if (at.cycle_momentum && !has_betas(options)) {
    findings.notes.push_back(core::concat(
        "cycle_momentum has no effect: ", options.optimizer.rule->name, " has no betas"));
  }
}

void check(const JsonView& settings, Findings& findings, const engine::TrainOptions& options) {
  const SchedulerOptions& at = options.scheduler;
  if (at.rule == &optim::kOneCycle) return check_one_cycle(settings, findings, options);
  if (at.rule == &optim::kLrRangeTest) {
    return check_above_zero(settings, "lr_range_test_step_size", at.lr_range_test_step_size);
  }
  check_warmup(settings, findings, at);
  if (at.rule != &optim::kWarmupLr) check_total(settings, findings, at);
}

void refuse_type(const JsonView& settings, const std::string& type, Findings& findings) {
  std::vector<std::string> names;
  for (const optim::SchedulerRow* each : optim::deepspeed_schedules()) {
    names.emplace_back(each->name);
  }
  const bool torch = std::find(kTorchTypes.begin(), kTorchTypes.end(), type) != kTorchTypes.end();
  const std::string near = core::nearest(type, names);
  findings.refuse(settings.line("scheduler.type"), "scheduler.type = \"" + type + "\"",
                  (torch ? "it comes later" : "DeepSpeed does not recognize LR scheduler " + type) +
                      (near.empty() || torch ? "" : ", did you mean \"" + near + "\"?") +
                      ", today there are " + core::join(names, ", ") +
                      "; without the block --lr_scheduler_type has the Trainer's");
}

}  // namespace

bool apply_scheduler(const JsonView& settings, Findings& findings, engine::TrainOptions& options) {
  const std::string type = block_type(settings, "scheduler", "WarmupLR", findings);
  if (type.empty()) return false;
  const auto all = optim::deepspeed_schedules();
  const auto row = std::ranges::find(all, type, &optim::SchedulerRow::name);
  if (row == all.end()) {
    refuse_type(settings, type, findings);
    return true;
  }
  SchedulerOptions& scheduler = options.scheduler;
  scheduler.rule = *row;
  std::vector<std::string> known = {"last_batch_iteration"};
  for (const optim::SchedulerParam& each : scheduler.rule->params) known.emplace_back(each.name);
  check_params(settings, "scheduler.params", type, known);
  for (const optim::SchedulerParam& each : scheduler.rule->params) {
    std::visit(ReadParam{settings, param(each.name), scheduler}, each.value);
  }
  // null, as Python's None: the optimizer's.
  const JsonTree* const highest = settings.raw(param("warmup_max_lr"));
  if (highest != nullptr && !scheduler.warmup_max_lr) {
    scheduler.warmup_max_lr = options.optimizer.lr;
  }
  if (scheduler.rule == &optim::kWarmupDecayLr && !scheduler.warmup_max_lr) {
    scheduler.warmup_max_lr = optim::kDecayMaxLr;
  }
  check(settings, findings, options);
  scheduler.cycle_momentum = scheduler.cycle_momentum && has_betas(options);
  return true;
}

}  // namespace fm::cli
