#include "cli/deepspeed/trainer_arguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "cli/deepspeed/value_types.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::cli {
namespace {

using core::concat;

// TrainingArguments' defaults (transformers/training_args.py).
constexpr double kRate = 5e-5;
constexpr double kDecay = 0.0;
constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.999;
constexpr double kEpsilon = 1e-8;
constexpr double kClipping = 1.0;
constexpr std::int64_t kRows = 8;

JsonTree of_kind(JsonKind kind) {
  JsonTree value;
  value.kind = kind;
  return value;
}
JsonTree number_value(double number) {
  JsonTree value = of_kind(JsonKind::kNumber);
  value.number = number;
  char text[32];  // the shortest that is read back as the same
  value.text = std::string(text, std::to_chars(text, std::end(text), number).ptr);
  return value;
}
JsonTree bool_value(bool on) {
  JsonTree value = of_kind(JsonKind::kBool);
  value.boolean = on;
  return value;
}
JsonTree text_value(const std::string& text) {
  JsonTree value = of_kind(JsonKind::kString);
  value.text = text;
  return value;
}

bool is_nothing(const JsonTree* value) {
  if (value == nullptr || value->kind == JsonKind::kNull || is_auto(*value)) return true;
  return value->is_object() &&
         std::ranges::all_of(value->members, [](const JsonTree::Member& each) {
           return each.value.kind == JsonKind::kNull;
         });
}

class Filling {
 public:
  Filling(JsonTree& root, Findings& findings) : root_(root), findings_(findings) {}

  // "auto" becomes the flag's value or the Trainer's default; a value that is there must be the
  // flag's; where nothing is, a given flag is added.
  void number(const std::string& path, const char* flag, std::optional<double> given,
              double otherwise) {
    fill(path, flag, given ? std::optional(number_value(*given)) : std::nullopt,
         number_value(otherwise));
  }
  void boolean(const std::string& path, const char* flag, std::optional<bool> given) {
    fill(path, flag, given ? std::optional(bool_value(*given)) : std::nullopt, bool_value(false));
  }
  void fill(const std::string& path, const char* flag, const std::optional<JsonTree>& given,
            const JsonTree& otherwise) {
    const JsonTree* const at = find(path);
    if (at != nullptr && is_auto(*at)) {
      say(path, given ? *given : otherwise, given ? flag : nullptr);
      put(path, given ? *given : otherwise, at->line,
          given ? concat("--", flag) : std::string("Trainer's default"));
    } else if (at == nullptr || at->kind == JsonKind::kNull) {
      if (given) put(path, *given, 0, concat("--", flag));
    } else if (given && !same(*at, *given)) {
      findings_.refuse(at->line, concat(path, " = ", show(*at)),
                       concat("--", flag, " is ", show(*given),
                              "; write \"auto\" in the file, or leave the flag out"));
    }
  }

  void put(const std::string& path, JsonTree value, int line, std::string from = {}) {
    if (!from.empty()) findings_.origins[path] = std::move(from);
    JsonTree* at = &root_;
    for (const std::string& key : core::split(path, '.')) {
      if (!at->is_object()) become_object(*at);
      const auto member = std::ranges::find(at->members, key, &JsonTree::Member::key);
      if (member == at->members.end()) {
        const int line_of_block = at->line;
        at->members.push_back({key, {}});
        at = &at->members.back().value;
        at->line = line_of_block;
      } else {
        at = &member->value;
      }
    }
    value.line = line > 0 ? line : at->line;
    *at = std::move(value);
  }

  const JsonTree* find(const std::string& path) const { return find_path(root_, path); }

  bool finish() {
    if (!filled_.empty()) {
      findings_.notes.push_back("\"auto\" is filled in as by Hugging Face's Trainer: " +
                                core::join(filled_, ", "));
    }
    return !filled_.empty();
  }

 private:
  static void become_object(JsonTree& value) {
    const int line = value.line;
    value = of_kind(JsonKind::kObject);
    value.line = line;
  }

  static bool same(const JsonTree& in_file, const JsonTree& given) {
    if (given.kind == JsonKind::kBool) return to_bool(in_file) == given.boolean;
    if (given.kind == JsonKind::kNumber) return to_number(sole(in_file)) == given.number;
    if (given.items.size() != in_file.items.size()) return false;
    return std::equal(
        given.items.begin(), given.items.end(), in_file.items.begin(),
        [](const JsonTree& a, const JsonTree& b) { return to_number(a) == to_number(b); });
  }

  void say(const std::string& path, const JsonTree& value, const char* flag) {
    if (path.ends_with("total_num_steps")) return;  // as long as the run, in any case
    filled_.push_back(
        concat(path, " ", show(value), flag == nullptr ? "" : concat(" (--", flag, ")")));
  }

  JsonTree& root_;
  Findings& findings_;
  std::vector<std::string> filled_;
};

void fill_optimizer(const TrainerArguments& trainer, Filling& filling, Findings& findings) {
  JsonTree betas = of_kind(JsonKind::kArray);
  betas.items = {number_value(trainer.adam_beta1.value_or(kBeta1)),
                 number_value(trainer.adam_beta2.value_or(kBeta2))};
  if (is_nothing(filling.find("optimizer"))) {
    filling.put("optimizer", {}, 0);
    filling.put("optimizer.type", text_value("AdamW"), 0, "Trainer's default");
    for (const char* key : {"lr", "betas", "eps", "weight_decay"}) {
      filling.put(concat("optimizer.params.", key), text_value("auto"), 0);
    }
    findings.notes.emplace_back(
        "no optimizer in the configuration: AdamW with the Trainer's values");
  }
  const JsonTree* const type = filling.find("optimizer.type");
  const bool adam = type != nullptr && core::lower(type->text).starts_with("adam");
  const bool beta_given = trainer.adam_beta1 || trainer.adam_beta2;
  const auto here = [&](const char* key) {
    return adam || filling.find(concat("optimizer.params.", key)) != nullptr;
  };
  filling.number("optimizer.params.lr", "learning_rate", trainer.learning_rate, kRate);
  filling.number("optimizer.params.weight_decay", "weight_decay", trainer.weight_decay, kDecay);
  if (here("betas")) {
    filling.fill("optimizer.params.betas", "adam_beta1, --adam_beta2",
                 beta_given ? std::optional(betas) : std::nullopt, betas);
  } else if (beta_given) {
    findings.notes.push_back(concat("--adam_beta1 and --adam_beta2 have no effect on type ",
                                    type == nullptr ? "" : show(*type)));
  }
  if (here("eps")) {
    filling.number("optimizer.params.eps", "adam_epsilon", trainer.adam_epsilon, kEpsilon);
  } else if (trainer.adam_epsilon) {
    findings.notes.push_back(
        concat("--adam_epsilon has no effect on type ", type == nullptr ? "" : show(*type)));
  }
}

void fill_scheduler(const TrainerArguments& trainer, std::int64_t train_steps, Filling& filling,
                    Findings& findings) {
  if (is_nothing(filling.find("scheduler"))) return;
  const JsonTree* const type = filling.find("scheduler.type");
  const bool warms_up = type == nullptr || is_auto(*type) || type->text.starts_with("Warmup");
  const auto steps =
      static_cast<double>(std::max<std::int64_t>(1, trainer.warmup_steps(train_steps)));
  if (warms_up) {
    filling.number("scheduler.params.warmup_num_steps", trainer.warmup_flag,
                   trainer.warmup ? std::optional(steps) : std::nullopt, steps);
  } else if (trainer.warmup) {
    findings.notes.push_back(
        concat("--", trainer.warmup_flag, " has no effect on the schedule ", show(*type)));
  }
  const JsonTree* const lr = filling.find("optimizer.params.lr");
  const double base = lr == nullptr ? kRate : to_number(*lr).value_or(kRate);
  const JsonTree* const highest = filling.find("scheduler.params.warmup_max_lr");
  filling.number("scheduler.params.warmup_max_lr", "learning_rate",
                 highest == nullptr ? std::nullopt : trainer.learning_rate, base);
  filling.number("scheduler.params.warmup_min_lr", "", std::nullopt, 0.0);
  filling.number("scheduler.params.total_num_steps", "", std::nullopt,
                 static_cast<double>(train_steps));
  const auto overruled = [&](const char* flag, const std::string& value) {
    if (value.empty()) return;
    findings.notes.push_back(concat("--", flag, " ", value,
                                    " has no effect, as in the Trainer: the configuration has a "
                                    "scheduler of its own"));
  };
  overruled("lr_scheduler_type", trainer.lr_scheduler_type);
  overruled("lr_scheduler_kwargs", trainer.lr_scheduler_kwargs);
}

constexpr const char* kRowsPath = "train_micro_batch_size_per_gpu";

void fill_batch(const TrainerArguments& trainer, Filling& filling) {
  const auto as_number = [](const std::optional<std::int64_t>& given) {
    return given ? std::optional(static_cast<double>(*given)) : std::nullopt;
  };
  filling.number(kRowsPath, "per_device_train_batch_size",
                 as_number(trainer.per_device_train_batch_size), static_cast<double>(kRows));
  filling.number("gradient_accumulation_steps", "gradient_accumulation_steps",
                 as_number(trainer.gradient_accumulation_steps), 1.0);
}

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

std::int64_t TrainerArguments::warmup_steps(std::int64_t train_steps) const {
  const double given = warmup.value_or(0.0);
  const double steps =
      given >= 1.0 ? std::floor(given) : std::ceil(static_cast<double>(train_steps) * given);
  return static_cast<std::int64_t>(steps);
}

bool TrainerArguments::any() const {
  return learning_rate || weight_decay || adam_beta1 || adam_beta2 || adam_epsilon ||
         max_grad_norm || warmup || per_device_train_batch_size || gradient_accumulation_steps ||
         bf16 || fp16 || !lr_scheduler_type.empty() || !lr_scheduler_kwargs.empty();
}

TrainersShare fill_from_trainer(const TrainerArguments& trainer, std::int64_t train_steps,
                                JsonTree& root, Findings& findings) {
  Filling filling(root, findings);
  const bool own_optimizer = !is_nothing(filling.find("optimizer"));
  fill_batch(trainer, filling);
  filling.number("gradient_clipping", "max_grad_norm", trainer.max_grad_norm, kClipping);
  fill_optimizer(trainer, filling, findings);
  fill_scheduler(trainer, train_steps, filling, findings);
  const bool old_name = filling.find("bfloat16") != nullptr;
  filling.boolean(old_name ? "bfloat16.enabled" : "bf16.enabled", "bf16", trainer.bf16);
  filling.boolean("fp16.enabled", "fp16", trainer.fp16);
  const bool any_auto = filling.finish();
  if (!any_auto && own_optimizer && !trainer.any()) return {};
  if (is_nothing(filling.find("train_batch_size")) && is_nothing(filling.find(kRowsPath))) {
    filling.put(kRowsPath, number_value(static_cast<double>(kRows)), 0, "Trainer's default");
    findings.notes.push_back(concat("no batch size in the configuration: ", kRowsPath, " is ",
                                    kRows, ", the Trainer's"));
  }
  return {.schedule = true, .optimizer = !own_optimizer};
}

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
