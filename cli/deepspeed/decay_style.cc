// FMEngine's keys lr-decay-style, warmup and min_lr, which its own code never read: where there is
// no scheduler block they say which schedule their author wanted.
#include <algorithm>

#include "cli/deepspeed/trainer_arguments.h"
#include "cli/deepspeed/value_types.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::cli {
namespace {

constexpr const char* kKeys[] = {"lr-decay-style", "lr_decay_style", "warmup", "min_lr"};

void ignore(const JsonView& settings, const char* why, Findings& findings) {
  Finding ignored{.why = why, .what = {}};
  for (const char* key : kKeys) {
    if (settings.get(key) != nullptr) ignored.what.emplace_back(key);
  }
  if (!ignored.what.empty()) findings.ignored.push_back(std::move(ignored));
}

// "auto" is not a number here: it is left to nobody.
double share(const JsonView& settings, const char* key) {
  const JsonTree* const value = settings.get(key);
  if (value == nullptr) return 0.0;
  const double number = to_number(*value).value_or(-1.0);
  FM_USER_CHECK(number >= 0.0 && number < 1.0, key,
                " must lie in [0, 1): warmup is a share of the steps, min_lr a rate; correct it (",
                settings.where(key), ": ", show(*value), ")");
  return number;
}

}  // namespace

bool apply_decay_style(const JsonView& settings, const TrainerArguments& trainer,
                       Findings& findings, engine::TrainOptions& options) {
  if (settings.get("scheduler.type") != nullptr) {
    ignore(settings, "the scheduler block decides, as in FMEngine", findings);
    return false;
  }
  const char* const key = settings.get(kKeys[0]) != nullptr ? kKeys[0] : kKeys[1];
  const JsonTree* const style = settings.get(key);
  if (style == nullptr) {
    ignore(settings, "without lr-decay-style they mean nothing", findings);
    return false;
  }
  if (trainer.warmup || !trainer.lr_scheduler_type.empty()) {
    ignore(settings, "the flags decide", findings);
    return false;
  }
  const std::string word = core::lower(style->text);
  TrainerArguments wanted = trainer;
  const double least = share(settings, "min_lr");
  if (word == "cosine") {
    wanted.lr_scheduler_type = "cosine_with_min_lr";
    wanted.lr_scheduler_kwargs = core::concat("{\"min_lr\": ", least, "}");
  } else if (word == "linear") {
    wanted.lr_scheduler_type = "polynomial";
    wanted.lr_scheduler_kwargs = core::concat("{\"lr_end\": ", least, "}");
  } else {
    FM_USER_CHECK(word == "constant", key, " must be cosine, linear or constant; choose one (",
                  settings.where(key), ": ", show(*style), ")");
    wanted.lr_scheduler_type = "constant_with_warmup";
  }
  wanted.warmup = share(settings, "warmup");
  apply_trainer_schedule(wanted, findings, options);
  return true;
}

}  // namespace fm::cli
