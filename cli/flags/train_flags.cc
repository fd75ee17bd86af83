#include "cli/flags/train_flags.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>

#include "cli/deepspeed/ds_monitor.h"
#include "cli/deepspeed/ds_pipeline.h"
#include "cli/flags/flag_values.h"
#include "cli/flags/row_flags.h"
#include "cli/peft_folder.h"
#include "core/check.h"
#include "core/text.h"
#include "observe/report/trace_step.h"

namespace fm::cli {
namespace {

using Words = std::vector<std::string>;
using core::concat;
using engine::TrainOptions;

// The shares of --split, of any sum, or of --validation_split.
data::Split read_split(const FlagValues& flags) {
  FM_USER_CHECK(!flags.given("split") || !flags.given("validation_split"),
                "--split and --validation_split say the same in two ways; leave one out");
  if (flags.given("validation_split")) {
    const double share = flags.number("validation_split", 0.0);
    FM_USER_CHECK(share < 1.0, "--validation_split must be a share below 1, as 0.05; correct it (",
                  share, ")");
    return {.training = 1.0 - share, .evaluation = share};
  }
  if (!flags.given("split")) return {};
  double shares[3] = {};
  double sum = 0.0;
  const std::vector<std::string> words = core::split(flags.text("split"), ',');
  for (std::size_t at = 0; at < std::min(words.size(), std::size(shares)); ++at) {
    shares[at] = core::number_of(words[at]).value_or(-1.0);
    sum += shares[at] < 0.0 ? std::numeric_limits<double>::quiet_NaN() : shares[at];
  }
  FM_USER_CHECK(words.size() <= std::size(shares) && std::isfinite(sum) && shares[0] > 0.0,
                "--split must be up to three numbers, the first above 0, as 949,50,1; correct it (",
                flags.text("split"), ")");
  return {.training = shares[0] / sum, .evaluation = shares[1] / sum};
}

constexpr const char* kLoraFlags[] = {"lora_alpha", "lora_dropout",    "lora_target_modules",
                                      "use_rslora", "modules_to_save", "trainable_token_indices"};

// "q_proj v_proj" or "q_proj,v_proj".
std::vector<std::string> names_of(const FlagValues& flags, const char* flag) {
  std::vector<std::string> names;
  for (const std::string& word : flags.list(flag)) {
    for (const std::string& name : core::split(word, ',')) names.push_back(name);
  }
  return names;
}

// "400,401"
std::vector<std::int64_t> token_rows_of(const std::string& words) {
  std::vector<std::int64_t> rows;
  if (words.empty()) return rows;
  for (const std::string& word : core::split(words, ',')) {
    const double id = core::number_of(word).value_or(-1.0);
    FM_USER_CHECK(id >= 0.0 && id < 2147483648.0 && id == std::floor(id),
                  "--trainable_token_indices must be a list of ids, as 400,401; correct it (",
                  words, ")");
    rows.push_back(static_cast<std::int64_t>(id));
  }
  std::ranges::sort(rows);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

engine::LoraOptions lora_of_flags(const FlagValues& flags) {
  engine::LoraOptions lora;
  lora.r = flags.integer("lora_r", 1, kMostLoraRank);
  lora.alpha = flags.number("lora_alpha", 0.0);
  lora.dropout = flags.number("lora_dropout", 0.0);
  lora.rslora = flags.flag("use_rslora");
  lora.targets = names_of(flags, "lora_target_modules");
  lora.modules_to_save = names_of(flags, "modules_to_save");
  lora.token_rows = token_rows_of(flags.text("trainable_token_indices"));
  check_lora(lora, "--lora_r, --lora_alpha, --lora_dropout");
  return lora;
}

// "1,1,1,0": T_F, T_I, T_W and T_comm. Nothing where the words are none.
std::optional<pipeline::PhaseCosts> four_times(const std::string& words) {
  std::vector<double> times;
  for (const std::string& word : core::split(words, ',')) {
    times.push_back(core::number_of(word).value_or(-1.0));
  }
  const bool four = times.size() == 4 && times[3] >= 0.0;
  const bool positive = four && times[0] > 0.0 && times[1] > 0.0 && times[2] > 0.0;
  if (!positive) return std::nullopt;
  return pipeline::PhaseCosts{times[0], times[1], times[2], times[3]};
}

// Four numbers, or the trace of an earlier run: its medians, of a rank and of units.
void read_times(const std::string& words, engine::TrainOptions& options) {
  options.plan_times = four_times(words);
  if (options.plan_times) return;
  std::error_code ignored;
  FM_USER_CHECK(std::filesystem::exists(words, ignored),
                "--plan_times must be four numbers T_F,T_I,T_W,T_comm, of which the first three "
                "are greater than 0, as 1,1,1,0, or the FILE of an earlier run's --trace; correct "
                "it (",
                words, ")");
  const report::UnitTimes read = report::unit_times(report::read_trace_step(words), words);
  const auto phases = [](const report::PhaseTimes& times) {
    return engine::UnitTimes::Phases{times.forward, times.input, times.weight};
  };
  options.plan_times = {read.rank.forward, read.rank.input, read.rank.weight, read.message};
  options.unit_times = {.embedding = phases(read.embedding),
                        .block = phases(read.block),
                        .head = read.head,
                        .message = read.message};
}

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

void read_data(const FlagValues& flags, engine::TrainOptions& options) {
  options.text_first = flags.given("text_field");
  options.rows = read_row_options(flags);
  options.data_format =
      flags.choice<data::DataFormat>("data_format", {{"auto", data::DataFormat::kAuto},
                                                     {"jsonl", data::DataFormat::kJsonl},
                                                     {"text", data::DataFormat::kText},
                                                     {"csv", data::DataFormat::kCsv},
                                                     {"tsv", data::DataFormat::kTsv},
                                                     {"parquet", data::DataFormat::kParquet},
                                                     {"arrow", data::DataFormat::kArrow},
                                                     {"tokens", data::DataFormat::kTokens},
                                                     {"tokens_i32", data::DataFormat::kTokens},
                                                     {"megatron", data::DataFormat::kMegatron},
                                                     {"mds", data::DataFormat::kMds}});
  options.token_type =
      flags.choice<data::TokenType>("token_dtype", {{"auto", data::TokenType::kAuto},
                                                    {"uint16", data::TokenType::kU16},
                                                    {"int32", data::TokenType::kI32},
                                                    {"int64", data::TokenType::kI64}});
  options.packing =
      flags.choice<data::Packing>("packing", {{"", data::Packing::kConcat},
                                              {"concat", data::Packing::kConcat},
                                              {"best_fit", data::Packing::kBestFit},
                                              {"none", data::Packing::kOneDocument},
                                              {"one_document", data::Packing::kOneDocument}});
  options.document_attention = flags.flag("document_attention");
  if (flags.given("max_seq_len")) options.max_seq_len = flags.integer("max_seq_len", 1, 1 << 24);
  options.left_open = {.packing = !flags.given("packing"),
                       .document_attention = !flags.given("document_attention"),
                       .max_seq_len = !flags.given("max_seq_len")};
  options.split = read_split(flags);
  const bool splits = options.split.training < 1.0;
  FM_USER_CHECK(!flags.given("shuffle_split") || splits,
                "--shuffle_split belongs to --split and --validation_split; give one of them, or "
                "leave it out");
  options.split.shuffled = splits && flags.flag("shuffle_split");
  if (flags.given("max_train_samples")) {
    options.split.most_training = flags.integer("max_train_samples", 1);
  }
  if (flags.given("max_eval_samples")) {
    options.split.most_evaluation = flags.integer("max_eval_samples", 1);
  }
  if (flags.given("assistant_only_loss")) {
    options.assistant_only_loss = flags.flag("assistant_only_loss");
  }
  if (flags.given("completion_only_loss")) {
    options.completion_only_loss = flags.flag("completion_only_loss");
  }
  options.add_tokens = flags.tokens("add_tokens");
  FM_USER_CHECK(options.split.evaluation == 0.0 || options.eval_data_path.empty(),
                "evaluation data are a file or a part of the training data; leave out "
                "--eval_data_path, or --split and --validation_split (eval_data_path=",
                core::join(options.eval_data_path, " "), ")");
  flags.integer("num_workers", 0);  // has no effect, yet must be a number
}

void read_lora(const FlagValues& flags, engine::TrainOptions& options) {
  const std::string adapter =
      split_adapter(options.init_ckpt, flags.text("adapter"), "--init_ckpt");
  const bool refused = flags.given("use_peft") && !flags.flag("use_peft");
  if (refused && flags.given("lora_r")) {
    options.notes.emplace_back("flags of LoRA have no effect: --use_peft false");
  }
  const bool by_flags = flags.given("lora_r") && !refused;
  const bool by_json = options.lora.r > 0;
  const int ways = (adapter.empty() ? 0 : 1) + (by_flags ? 1 : 0) + (by_json ? 1 : 0);
  FM_USER_CHECK(ways <= 1,
                "adapters are what one of these says: --lora_r, the block \"lora\" of the JSON, or "
                "the PEFT folder to start from; leave out the others");
  if (!adapter.empty()) options.lora = read_adapter(adapter);
  if (by_flags) options.lora = lora_of_flags(flags);
  for (const char* flag : kLoraFlags) {
    FM_USER_CHECK(by_flags || refused || !flags.given(flag), "--", flag,
                  " belongs to --lora_r; give that, too, or leave it out");
  }
}

void read_pipeline(const FlagValues& flags, engine::TrainOptions& options) {
  if (flags.given("schedule")) choose_schedule(flags.text("schedule"), "--schedule", options);
  if (flags.given("virtual_stages")) options.virtual_stages = flags.small("virtual_stages", 0);
  if (flags.given("post_validation")) options.post_validation = flags.flag("post_validation");
  if (flags.given("activation_limit")) {
    set_activation_limit(flags.number("activation_limit", 0.0), "--activation_limit", options);
  }
  if (flags.given("partition_method")) {
    options.partition = pipeline::partition_named(flags.text("partition_method"));
  }
}

void read_plan(const FlagValues& flags, Command& command) {
  for (const char* name : {"micros", "csv", "csv_messages"}) {
    FM_USER_CHECK(!flags.given(name) || command.action == Action::kPlan, "--", name,
                  " belongs to --plan; add --plan or remove it (", flags.text(name), ")");
  }
  if (flags.given("plan_times")) {
    read_times(flags.text("plan_times"), command.options);
  }
  command.micros = flags.small("micros", flags.given("micros") ? 1 : 0);
  command.csv = flags.text("csv");
  command.csv_messages = flags.text("csv_messages");
  const bool has_model = flags.given("model_config") || flags.given("init_ckpt");
  FM_USER_CHECK(command.micros == 0 || (!has_model && command.options.plan_times),
                "--micros belongs to a plan of a schedule alone; with a model, "
                "gradient_accumulation_steps says it, without one --plan_times T_F,T_I,T_W,T_comm "
                "is needed (",
                command.micros, ")");
  const bool plans = command.action == Action::kPlan;
  FM_USER_CHECK(has_model || !plans || !command.options.plan_times || command.micros > 0,
                "a plan of a schedule alone needs --micros; give the number of micro-batches, or a "
                "model");
}

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
      .logging_steps = {},  // by the length of the run
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
    out.warmup_flag = "warmup_ratio";
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
  const std::string named = core::join(flags.list("report_to"), ",");
  for (const std::string& word : core::split(core::lower(named), ',')) {
    if (word.empty()) continue;
    FM_USER_CHECK(std::ranges::find(known, word) != known.end(),
                  "--report_to must be a list of none, all, tensorboard, csv, wandb and other ",
                  "services of the Trainer; did you mean ", core::nearest(word, known), "? (",
                  named, ")");
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
