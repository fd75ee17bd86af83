// The Trainer's schedule and its parameters (--lr_scheduler_type, --lr_scheduler_kwargs).
#include <algorithm>

#include "cli/deepspeed/trainer_arguments.h"
#include "cli/deepspeed/value_types.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::cli {
namespace {

// A number, true or a word of --lr_scheduler_kwargs becomes the row's parameter.
struct TakeParam {
  const JsonTree& value;
  optim::SchedulerOptions& scheduler;

  bool operator()(double optim::SchedulerOptions::*at) const {
    return take(to_number(value), scheduler.*at);
  }
  bool operator()(std::int64_t optim::SchedulerOptions::*at) const {
    return take(to_int(value), scheduler.*at);
  }
  bool operator()(bool optim::SchedulerOptions::*at) const {
    return take(to_bool(value), scheduler.*at);
  }
  bool operator()(std::optional<double> optim::SchedulerOptions::*at) const {
    return take(to_number(value), scheduler.*at);
  }
  bool operator()(std::optional<std::int64_t> optim::SchedulerOptions::*at) const {
    return take(to_int(value), scheduler.*at);
  }
  bool operator()(optim::WarmupType optim::SchedulerOptions::*) const { return false; }
  bool operator()(optim::Shape optim::SchedulerOptions::*at) const {
    if (value.text == "linear") return take(std::optional(optim::Shape::kLinear), scheduler.*at);
    if (value.text == "cosine") return take(std::optional(optim::Shape::kCosine), scheduler.*at);
    return value.text == "1-sqrt" &&
           take(std::optional(optim::Shape::kOneMinusSqrt), scheduler.*at);
  }

  template <class From, class To>
  static bool take(const std::optional<From>& from, To& to) {
    if (from) to = *from;
    return from.has_value();
  }
};

void apply_kwargs(const std::string& text, optim::SchedulerOptions& scheduler) {
  constexpr const char* kFlag = "--lr_scheduler_kwargs";
  const JsonTree root = parse_hjson(text, kFlag);
  FM_USER_CHECK(root.is_object(), kFlag, " must be an object, as {\"num_cycles\": 2} (", text, ")");
  std::vector<std::string> known;
  for (const optim::SchedulerParam& param : scheduler.rule->params) {
    const std::string_view name = param.name;
    if (name != "warmup_steps" && name != "total_num_steps") known.emplace_back(name);
  }
  for (const JsonTree::Member& member : root.members) {
    const auto param = std::ranges::find_if(
        scheduler.rule->params,
        [&](const optim::SchedulerParam& each) { return member.key == each.name; });
    FM_USER_CHECK(std::ranges::find(known, member.key) != known.end(), "the schedule ",
                  scheduler.rule->name, " takes no parameter \"", member.key, "\"; ",
                  known.empty() ? "it has none" : "it has " + core::join(known, ", "), " (", kFlag,
                  ")");
    FM_USER_CHECK(std::visit(TakeParam{member.value, scheduler}, param->value), "\"", member.key,
                  "\" of the schedule ", scheduler.rule->name, " has a value of another kind; ",
                  "correct it (", kFlag, ": ", show(member.value), ")");
  }
}

// What transformers refuses too.
void check_schedule(const optim::SchedulerOptions& at, double base_lr) {
  const bool least = at.min_lr.has_value() != at.min_lr_rate.has_value();
  FM_USER_CHECK(at.rule != &optim::kCosineWithMinLr || least,
                "the schedule cosine_with_min_lr requires min_lr or min_lr_rate, not both; give "
                "--lr_scheduler_kwargs '{\"min_lr_rate\": 0.1}'");
  FM_USER_CHECK(at.rule != &optim::kPolynomial || base_lr > at.lr_end,
                "lr_end must be smaller than the learning rate; correct one (lr_end ", at.lr_end,
                ", learning rate ", base_lr, ")");
  FM_USER_CHECK(at.rule != &optim::kWarmupStableDecay || at.num_decay_steps > 0,
                "the schedule warmup_stable_decay requires num_decay_steps; give "
                "--lr_scheduler_kwargs '{\"num_decay_steps\": 100}'");
  FM_USER_CHECK(!at.timescale || *at.timescale > 0, "timescale must be above 0; correct it (",
                at.timescale.value_or(0), ")");
}

}  // namespace

void apply_trainer_schedule(const TrainerArguments& trainer, Findings& findings,
                            engine::TrainOptions& options) {
  const std::string type =
      trainer.lr_scheduler_type.empty() ? "linear" : core::lower(trainer.lr_scheduler_type);
  std::vector<std::string> names;
  optim::SchedulerOptions& scheduler = options.scheduler;
  const optim::SchedulerRow* found = nullptr;
  for (const optim::SchedulerRow* row : optim::trainer_schedules()) {
    names.emplace_back(row->name);
    if (type == row->name) found = row;
  }
  const std::string near = core::nearest(type, names);
  FM_USER_CHECK(found != nullptr, "--lr_scheduler_type must be one of ", core::join(names, ", "),
                "; ", near.empty() ? "choose one" : "did you mean " + near + "?", " (", type, ")");
  scheduler.rule = found;
  scheduler.warmup_steps = trainer.warmup_steps(options.train_steps);
  scheduler.total_num_steps = options.train_steps;
  if (!trainer.lr_scheduler_kwargs.empty()) apply_kwargs(trainer.lr_scheduler_kwargs, scheduler);
  check_schedule(scheduler, options.optimizer.lr);
  findings.notes.push_back(core::concat(
      "no scheduler in the configuration: ", optim::describe(scheduler, options.optimizer.lr),
      ", as the Trainer (--lr_scheduler_type)"));
}

}  // namespace fm::cli
