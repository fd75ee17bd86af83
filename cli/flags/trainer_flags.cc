#include "cli/flags/trainer_flags.h"

#include <algorithm>
#include <cmath>

#include "cli/deepspeed/ds_monitor.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::cli {
namespace {

using core::concat;
using engine::TrainOptions;
using Words = std::vector<std::string>;

std::optional<double> number_of(const FlagValues& flags, const char* name, double least) {
  return flags.given(name) ? std::optional(flags.number(name, least)) : std::nullopt;
}
std::optional<std::int64_t> whole_of(const FlagValues& flags, const char* name) {
  return flags.given(name) ? std::optional(flags.integer(name, 1)) : std::nullopt;
}
std::optional<bool> flag_of(const FlagValues& flags, const char* name) {
  return flags.given(name) ? std::optional(flags.flag(name)) : std::nullopt;
}

std::optional<core::NoDecay> read_no_decay(const FlagValues& flags) {
  if (!flags.given("no_decay")) return std::nullopt;
  const std::string words = flags.text("no_decay");
  core::NoDecay no_decay;
  if (words.empty() || words == "none") return no_decay;
  for (const std::string& kind : core::split(words, ',')) {
    if (kind == "norm") {
      no_decay.norm = true;
    } else if (kind == "bias") {
      no_decay.bias = true;
    } else {
      FM_USER_CHECK(kind == "embedding",
                    "--no_decay is none or a list of norm, bias, embedding; correct it (", words,
                    ")");
      no_decay.embedding = true;
    }
  }
  return no_decay;
}

}  // namespace

TrainerArguments read_trainer_arguments(const FlagValues& flags) {
  TrainerArguments out{
      .learning_rate = number_of(flags, "learning_rate", 0.0),
      .weight_decay = number_of(flags, "weight_decay", 0.0),
      .adam_beta1 = number_of(flags, "adam_beta1", 0.0),
      .adam_beta2 = number_of(flags, "adam_beta2", 0.0),
      .adam_epsilon = number_of(flags, "adam_epsilon", 0.0),
      .max_grad_norm = number_of(flags, "max_grad_norm", 0.0),
      .warmup = number_of(flags, "warmup_steps", 0.0),
      .per_device_train_batch_size = whole_of(flags, "per_device_train_batch_size"),
      .gradient_accumulation_steps = whole_of(flags, "gradient_accumulation_steps"),
      .logging_steps = whole_of(flags, "log_steps"),
      .bf16 = flag_of(flags, "bf16"),
      .fp16 = flag_of(flags, "fp16"),
      .lr_scheduler_type = flags.given("lr_scheduler_type") ? flags.text("lr_scheduler_type") : "",
      .lr_scheduler_kwargs = flags.text("lr_scheduler_kwargs"),
      .no_decay = read_no_decay(flags)};
  FM_USER_CHECK(!out.bf16.value_or(false) || !out.fp16.value_or(false),
                "--fp16 and --bf16 exclude each other; give one of them");
  const std::optional<double> share = number_of(flags, "warmup_ratio", 0.0);
  FM_USER_CHECK(share.value_or(0.0) <= 1.0, "--warmup_ratio must lie in [0, 1]; correct it (",
                share.value_or(0.0), ")");
  if (share && out.warmup.value_or(0.0) == 0.0) {
    out.warmup = std::min(*share, std::nextafter(1.0, 0.0));  // 1 is all of the steps, not one
  }
  return out;
}

void read_reports(const FlagValues& flags, TrainOptions& options) {
  engine::MonitorOptions& monitors = options.monitors;
  monitors.prometheus_file = flags.text("prometheus_file");
  const std::string runs =
      flags.given("logging_dir") ? flags.text("logging_dir") : inside(options.output_dir, "runs");
  // transformers/integrations/integration_utils.py, and csv.
  const Words known = {"none",    "all",        "tensorboard", "csv",      "wandb",   "azure_ml",
                       "clearml", "codecarbon", "comet",       "comet_ml", "dagshub", "dvclive",
                       "flyte",   "mlflow",     "neptune",     "swanlab",  "trackio"};
  for (const std::string& word : core::split(core::lower(flags.text("report_to")), ',')) {
    FM_USER_CHECK(std::ranges::find(known, word) != known.end(),
                  "--report_to must be a list of none, all, tensorboard, csv, wandb and other ",
                  "services of the Trainer; did you mean ", core::nearest(word, known), "? (",
                  flags.text("report_to"), ")");
    if (word == "none") continue;
    if (word == "csv" || word == "all") add_once(monitors.csv, inside(options.output_dir, "csv"));
    if (word == "csv") continue;
    add_once(monitors.tensorboard, runs);
    if (word == "tensorboard" || word == "all") continue;
    options.notes.push_back(concat(
        "--report_to ", word, ": ",
        word == "wandb" ? import_command(options.project_name, "", runs) : not_sent(word, runs)));
  }
  if (flags.given("logging_dir") && monitors.tensorboard.empty()) {
    options.notes.emplace_back("--logging_dir has no effect without --report_to tensorboard");
  }
}

}  // namespace fm::cli
