#include "cli/flags/arguments.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>

#include "cli/deepspeed/ds_config.h"
#include "cli/deepspeed/ds_monitor.h"
#include "cli/deepspeed/value_types.h"
#include "cli/flags/argv.h"
#include "cli/flags/config_file.h"
#include "cli/flags/device_words.h"
#include "cli/flags/flag_values.h"
#include "cli/flags/train_flags.h"
#include "core/check.h"
#include "core/text.h"
#include "machine/cores.h"

namespace fm::cli {
namespace {

constexpr const char* kPurpose = "Trains a language model on N ranks, driven by a DeepSpeed JSON.";
constexpr const char* kUsage =
    "--deepspeed_config FILE --init_ckpt DIR --data_path FILE [flags]\n"
    "  Start N ranks with: mpirun -np N fmengine-train ..., or\n"
    "                      torchrun --nproc-per-node N --no-python fmengine-train ...\n"
    "  Hugging Face's names work too: --max_steps, --logging_steps, --save_total_limit,\n"
    "  --model_name_or_path, --train_file, --validation_file, --resume_from_checkpoint.\n"
    "  --config FILE reads flags out of YAML or JSON, also files of axolotl and LLaMA-Factory.\n"
    "  Names may use - or _; a boolean is --flag, --flag true or --flag=false.";

Program program() {
  return {.name = "fmengine-train",
          .purpose = kPurpose,
          .usage = kUsage,
          .flags = train_flags(),
          .variables = train_variables()};
}

void read_model(const FlagValues& flags, engine::TrainOptions& options) {
  FM_USER_CHECK(options.model_config.empty() || !flags.given("init_ckpt"),
                "--init_ckpt and --model_config exclude each other; use --init_ckpt DIR --pretrain "
                "for random weights in the shape of DIR (",
                flags.text("init_ckpt"), ", ", options.model_config, ")");
  if (!options.model_config.empty()) return;
  constexpr const char* kFmengines = "llama-7B-init-test-ckpt";
  options.init_ckpt = flags.given("init_ckpt") ? flags.text("init_ckpt") : kFmengines;
  std::error_code ignored;
  FM_USER_CHECK(flags.given("init_ckpt") || std::filesystem::exists(options.init_ckpt, ignored),
                "a model is required; give --init_ckpt DIR (a Hugging Face folder) or "
                "--model_config FILE (FMEngine's default folder is not here: ",
                options.init_ckpt, ")");
}

void read_layout(const FlagValues& flags, engine::TrainOptions& options) {
  FM_USER_CHECK(
      !parse_bool(flags.text("sequence_parallel")),
      "--sequence_parallel must be one of ulysses, ring, usp; Megatron-LM's switch of that "
      "name is --megatron_sequence_parallel (",
      flags.text("sequence_parallel"), ")");
  options.sequence_method = flags.choice<engine::SequenceMethod>(
      "sequence_parallel", {{"", engine::SequenceMethod::kAuto},
                            {"ulysses", engine::SequenceMethod::kUlysses},
                            {"ring", engine::SequenceMethod::kRing},
                            {"usp", engine::SequenceMethod::kUsp}});
  const std::int64_t window = flags.integer("window_size", 0);
  FM_USER_CHECK(
      window == 0,
      "--window_size must be 0 because the model says its windows; leave it out, and write "
      "sliding_window into config.json where the family has one (",
      window, ")");
  options.loss_reduction = flags.choice<engine::LossReduction>(
      "loss_reduction", {{"token", engine::LossReduction::kToken},
                         {"mean_of_means", engine::LossReduction::kMeanOfMeans}});
  options.device = read_device(flags);
  options.device.seed = static_cast<std::uint64_t>(flags.integer("device_seed", 0));
  options.device.shared = flags.flag("share_device");
  constexpr std::int64_t kMostSeconds = std::numeric_limits<int>::max() / 1000;
  options.timeout_ms = static_cast<int>(flags.integer("timeout_s", 1, kMostSeconds) * 1000);
  options.hang_ms = static_cast<int>(flags.integer("hang_s", 0, kMostSeconds) * 1000);
}

void check_attention(const FlagValues& flags) {
  FM_USER_CHECK(flags.text("attention") == "own",
                "--attention must be own because LibTorch's attention, which was there to compare "
                "with, is in tests and benchmarks only now; leave it out (",
                flags.text("attention"), ")");
}

std::string read_output_dir(const FlagValues& flags) {
  std::string folder = flags.text("output_dir");
  std::error_code ignored;
  const std::filesystem::path whole = std::filesystem::weakly_canonical(folder, ignored);
  FM_USER_CHECK(folder.empty() || whole != whole.root_path(),
                "--output_dir must not be the root of the file system; name a folder in it (",
                folder, ")");
  return folder;
}

void read_output(const FlagValues& flags, engine::TrainOptions& options) {
  options.output_dir = read_output_dir(flags);
  const std::string resume = flags.text("resume");
  if (resume == "auto") {
    options.resume = checkpoint::Resume::kAuto;
  } else if (resume == "must") {
    options.resume = checkpoint::Resume::kMust;
  } else if (resume == "never") {
    options.resume = checkpoint::Resume::kNever;
  } else {
    FM_USER_CHECK(!resume.empty(), "--resume must be auto, must, never or a path; write one");
    options.resume = checkpoint::Resume::kPath;
    options.resume_path = resume;
  }
  if (!flags.text("grace_s").empty()) options.grace_s = flags.integer("grace_s", 0);
  const std::string dtype = flags.text("export_dtype");
  if (core::lower(dtype) == "as_init") return;
  options.export_dtype = dtype_named(dtype);
  FM_USER_CHECK(options.export_dtype,
                "--export_dtype must be fp32, bf16, fp16 or as_init; correct it (", dtype, ")");
}

// "3-5", or "3" for one step.
engine::TraceSteps read_steps(const std::string& words) {
  const auto number = [&](std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    FM_USER_CHECK(whole && value >= 1,
                  "--trace_steps must be two step numbers from 1 on, as 3-5, or one; correct it (",
                  words, ")");
    return value;
  };
  const std::size_t dash = words.find('-');
  const std::string_view text(words);
  const std::int64_t first = number(text.substr(0, dash));
  const std::int64_t last = dash == std::string::npos ? first : number(text.substr(dash + 1));
  FM_USER_CHECK(first <= last, "--trace_steps must not end before it begins; swap the numbers (",
                words, ")");
  return {first, last};
}

void read_trace(const FlagValues& flags, engine::TrainOptions& options) {
  options.trace_steps = read_steps(flags.text("trace_steps"));
  FM_USER_CHECK(!flags.given("trace") || !options.trace.empty(),
                "--trace must name a file; write a name such as trace.json, or leave it out");
  FM_USER_CHECK(!flags.given("trace_steps") || !options.trace.empty(),
                "--trace_steps belongs to --trace; add --trace FILE or remove it (",
                flags.text("trace_steps"), ")");
}

// When something happens.
enum class Strategy : std::uint8_t { kNo, kSteps, kEpoch, kBest };

Strategy strategy_of(const FlagValues& flags, const std::string& name) {
  std::vector<std::pair<std::string, Strategy>> known = {
      {"steps", Strategy::kSteps}, {"epoch", Strategy::kEpoch}, {"no", Strategy::kNo}};
  if (name == "save_strategy") known.emplace_back("best", Strategy::kBest);
  return flags.choice<Strategy>(name, known);
}

// A number of steps, or a share of all of them, rounded up as in the Trainer.
std::int64_t steps_or_share(const FlagValues& flags, const char* name, std::int64_t train_steps,
                            std::int64_t least = 0) {
  const double given = flags.number(name, 0.0);
  if (given > 0.0 && given < 1.0) {
    return static_cast<std::int64_t>(std::ceil(given * static_cast<double>(train_steps)));
  }
  return flags.integer(name, least);
}

// Lengths in steps, from epochs where flags count in those.
void read_length(const FlagValues& flags, std::optional<std::int64_t> steps_of_epoch,
                 Command& command) {
  engine::TrainOptions& options = command.options;
  const Strategy saves = strategy_of(flags, "save_strategy");
  const bool evaluates_by_epoch = strategy_of(flags, "eval_strategy") == Strategy::kEpoch;
  options.saves = saves != Strategy::kNo;
  options.save_best = saves == Strategy::kBest;
  const std::int64_t steps = flags.integer("train_steps", -1);  // -1: the Trainer's "not given"
  const bool in_epochs =
      flags.given("num_train_epochs") && (!flags.given("train_steps") || steps < 0);
  FM_USER_CHECK(in_epochs || steps > 0, "--max_steps must be at least 1; correct it, or give ",
                "--num_train_epochs, or --eval_only to evaluate without training (", steps, ")");
  options.train_steps = steps;
  const double epochs = in_epochs ? flags.number("num_train_epochs", 0.0) : 0.0;
  FM_USER_CHECK(!in_epochs || (epochs > 0.0 && epochs < 1e9), "--num_train_epochs must be greater ",
                "than 0; correct it (", epochs, ")");
  if (flags.given("num_train_epochs") && !in_epochs) {
    options.notes.emplace_back("--num_train_epochs has no effect beside --max_steps");
  }
  if (!in_epochs && !flags.given("train_steps") && !options.eval_only) {
    options.notes.push_back(
        core::concat("neither --max_steps nor --num_train_epochs: ", steps, " steps"));
  }
  command.counts_epochs = in_epochs || saves == Strategy::kEpoch || evaluates_by_epoch;
  const std::int64_t one = steps_of_epoch.value_or(1);
  if (in_epochs) {
    options.train_epochs = epochs;
    options.train_steps = static_cast<std::int64_t>(std::ceil(epochs * static_cast<double>(one)));
  }
  options.eval_steps = steps_or_share(flags, "eval_steps", options.train_steps);
  options.save_steps = steps_or_share(flags, "save_steps", options.train_steps);
  options.log_steps = steps_or_share(flags, "log_steps", options.train_steps, 1);
  if (saves == Strategy::kEpoch) options.save_steps = one;
  if (options.save_best && flags.given("save_steps") && options.save_steps > 0) {
    options.notes.emplace_back("--save_steps has no effect beside --save_strategy best");
  }
  if (options.save_best) options.save_steps = 0;
  if (evaluates_by_epoch) options.eval_steps = one;
}

// What is done with evaluations beside showing them.
void read_best_model(const FlagValues& flags, engine::TrainOptions& options) {
  flags.choice<int>("metric_for_best_model", {{"loss", 0}, {"eval_loss", 0}});
  FM_USER_CHECK(!flags.flag("greater_is_better"), "--greater_is_better must be false, because a ",
                "loss is better when it is less; leave it out");
  options.early_stopping_threshold = flags.number("early_stopping_threshold", 0.0);
  const bool judges = options.saves_best() || options.early_stopping_patience > 0;
  FM_USER_CHECK(!judges || options.evaluates(), "--load_best_model_at_end, --save_strategy best ",
                "and --early_stopping_patience need evaluations; give --eval_data_path FILE or a ",
                "--split, and no --eval_strategy no");
  if (options.early_stopping_threshold > 0.0 && options.early_stopping_patience == 0) {
    options.notes.emplace_back(
        "--early_stopping_threshold has no effect without --early_stopping_patience");
  }
  FM_USER_CHECK(!options.load_best_model || options.saves, "--load_best_model_at_end needs ",
                "checkpoints; leave --save_strategy no out");
}

// What the Trainer's flag of evaluation says.
void read_evaluation(const FlagValues& flags, engine::TrainOptions& options) {
  const bool evaluates = strategy_of(flags, "eval_strategy") != Strategy::kNo;
  if (!evaluates && options.evaluates()) {
    options.notes.emplace_back("nothing is evaluated: --eval_strategy no");
    options.eval_data_path.clear();
    options.split.evaluation = 0.0;
  }
}

// Training data may be missing where nothing is trained.
void read_eval_only(engine::TrainOptions& options) {
  if (!options.eval_only) return;
  FM_USER_CHECK(
      options.evaluates(),
      "--eval_only needs evaluation data; give --eval_data_path FILE, or --data_path with "
      "--validation_split, and no --eval_strategy no");
  FM_USER_CHECK(options.trace.empty() && options.dump_gradients.empty(),
                "--eval_only makes no step of training; leave it out, or --trace and "
                "--dump_gradients (trace=",
                options.trace, ", dump_gradients=", options.dump_gradients, ")");
  if (!options.eval_data_path.empty()) options.data_path = options.eval_data_path;
}

// A row of one document is attended to as it is.
void note_document_attention(engine::TrainOptions& options) {
  if (!options.document_attention || options.packing != data::Packing::kOneDocument) return;
  options.notes.emplace_back(
      "--document_attention has no effect: with --packing none a row holds one document");
  options.document_attention = false;
}

// Flags that FMEngine has and that change nothing: said once, when they were given.
void note_compatible(const FlagValues& flags, engine::TrainOptions& options) {
  for (const FlagRow& flag : train_flags()) {
    const bool noted = std::string_view(flag.group) == kCompatible && flags.given(flag.name) &&
                       flags.text(flag.name) != flag.otherwise;
    if (noted)
      options.notes.push_back(core::concat("--", flag.name, " has no effect: ", flag.help));
  }
  if (flags.given("eval_steps") && options.eval_steps > 0 && !options.evaluates()) {
    options.notes.emplace_back("--eval_steps has no effect without --eval_data_path or a --split");
  }
  const bool asks = flags.given("eval_strategy") && !options.evaluates();
  if (asks && strategy_of(flags, "eval_strategy") != Strategy::kNo) {
    options.notes.push_back(core::concat("nothing is evaluated: --eval_strategy ",
                                         flags.text("eval_strategy"),
                                         " needs --eval_data_path or --validation_split"));
  }
}

// Absent: not given.
std::optional<core::Tier> tier_of(const FlagValues& flags, const char* name) {
  return flags.choice<std::optional<core::Tier>>(name, {{"", std::nullopt},
                                                        {"none", core::Tier::kDevice},
                                                        {"cpu", core::Tier::kHost},
                                                        {"nvme", core::Tier::kNvme}});
}

OffloadFlags read_offload(const FlagValues& flags) {
  FM_USER_CHECK(!flags.given("nvme_path") || !flags.text("nvme_path").empty(),
                "--nvme_path must name a folder; give one, or leave it out");
  return {.optimizer = tier_of(flags, "offload_optimizer"),
          .params = tier_of(flags, "offload_param"),
          .nvme_path = flags.text("nvme_path")};
}

void read_config(const FlagValues& flags, Command& command) {
  engine::TrainOptions& options = command.options;
  const PrecisionFlag precision = dtype_named(flags.text("precision"));
  FM_USER_CHECK(flags.text("precision").empty() || precision,
                "--precision must be fp32, bf16 or fp16; correct it, or leave it out for what the "
                "JSON says (",
                flags.text("precision"), ")");
  const std::string config = flags.text("deepspeed_config");
  if (config.empty()) options.notes.emplace_back("no --deepspeed_config: ZeRO 0");
  const bool recomputes = flags.flag("gradient_checkpointing");
  options.recompute_refused = flags.given("gradient_checkpointing") && !recomputes;
  TrainerArguments trainer = read_trainer_arguments(flags);
  if (flags.given("log_steps")) trainer.logging_steps = options.log_steps;
  command.config = apply_ds_config(
      config.empty() ? ConfigText{"{}", "no configuration"} : load_config_text(config),
      {precision, flags.flag("lenient") ? Unknown::kNoted : Unknown::kRefused, read_offload(flags)},
      trainer, options);
  const bool block = options.recompute;
  options.recompute = (block || recomputes) && !options.recompute_refused;
  if (block && !options.recompute) {
    options.notes.push_back(core::concat(
        "nothing is recomputed: --gradient_checkpointing false, which goes before ", config));
  }
}

// On CPUs nobody expects TF32, and bf16 has none of it: there a note does.
void check_tf32(const FlagValues& flags, const engine::TrainOptions& options) {
  const bool fp32_on_cards =
      options.device.kind == engine::DeviceKind::kCuda && options.element == core::DType::kF32;
  FM_USER_CHECK(!flags.flag("tf32") || !fp32_on_cards,
                "--tf32 must be false where GPUs compute in fp32, whose products do not round what "
                "they read; use --bf16, or leave --tf32 out");
}

// A number that stands for a variable of the environment, as a word.
std::optional<std::string> launch_word(const FlagValues& flags, const std::string& name,
                                       std::int64_t least) {
  if (!flags.given(name)) return std::nullopt;
  const std::int64_t value = flags.integer(name, least, std::numeric_limits<int>::max());
  return value < 0 ? std::nullopt : std::optional(std::to_string(value));
}

// "64G" is 64e9 bytes, "64Gi" 64 times 2^30; K, M and T too, a B may follow.
core::Bytes read_bytes(const FlagValues& flags, const std::string& name) {
  const std::string words = core::lower(flags.text(name));
  const std::size_t digits = words.find_last_not_of("bgikmt") + 1;
  const double value = core::number_of(std::string_view(words).substr(0, digits)).value_or(0.0);
  std::string unit = words.substr(digits);
  if (unit.ends_with('b')) unit.pop_back();
  const bool binary = unit.size() == 2 && unit[1] == 'i';
  const bool known = unit.empty() || ((unit.size() == 1 || binary) &&
                                      std::string_view("kmgt").find(unit[0]) != std::string::npos);
  FM_USER_CHECK(value > 0.0 && known, "--", name, " must be a size, as 64G or 512Gi; correct it (",
                flags.text(name), ")");
  const auto power = unit.empty() ? 0 : 1 + std::string_view("kmgt").find(unit[0]);
  const double factor = std::pow(binary ? 1024.0 : 1000.0, static_cast<double>(power));
  return core::Bytes(static_cast<std::int64_t>(value * factor));
}

// "6.5,4" GB/s.
engine::DriveRate read_drive_rate(const FlagValues& flags) {
  const std::vector<std::string> words = core::split(flags.text("nvme_rate"), ',');
  const double read = core::number_of(words.front()).value_or(0.0);
  const double write = core::number_of(words.back()).value_or(0.0);
  FM_USER_CHECK(words.size() == 2 && read > 0.0 && write > 0.0,
                "--nvme_rate must be two numbers above 0, GB/s of reads and of writes, as 6.5,4; ",
                "correct it (", flags.text("nvme_rate"), ")");
  return {read * 1e9, write * 1e9};
}

void read_drives(const FlagValues& flags, Command& command) {
  const bool rate = flags.given("nvme_rate");
  const bool endurance = flags.given("nvme_endurance");
  FM_USER_CHECK((!rate && !endurance) || command.action == Action::kPlan,
                "--nvme_rate and --nvme_endurance belong to --plan; add --plan or remove them");
  if (rate) command.nvme_rate = read_drive_rate(flags);
  if (endurance) command.nvme_endurance = flags.number("nvme_endurance", 1e-6) * 1e12;
}

void read_launch(const FlagValues& flags, Command& command) {
  command.rank = launch_word(flags, "rank", 0);
  command.local_rank = launch_word(flags, "local_rank", -1);  // -1: launchers say "none"
  command.world_size = launch_word(flags, "world_size", 1);
}

Command read_command(const FlagValues& flags, std::optional<std::int64_t> steps_of_epoch,
                     Command command) {
  read_launch(flags, command);
  check_attention(flags);
  if (const auto threads = flags.integer("threads", 0, machine::kMostThreads); threads > 0) {
    command.threads = static_cast<int>(threads);
  }
  if (flags.flag("where")) {
    command.action = Action::kWhere;
    return command;
  }
  if (flags.flag("report")) {
    command.action = Action::kReport;
    return command;
  }
  if (flags.flag("plan")) command.action = Action::kPlan;
  if (flags.flag("print_config")) command.action = Action::kPrintConfig;
  const bool starts = command.action == Action::kTrain;
  command.json = flags.flag("json");
  FM_USER_CHECK(!command.json || !starts,
                "--json belongs to --plan and --print_config; add one or remove it");
  FM_USER_CHECK(!flags.given("plan_ranks") || !starts,
                "--plan_ranks belongs to --plan; add --plan, or start that many ranks to train (",
                flags.text("plan_ranks"), ")");
  command.plan_ranks = flags.small("plan_ranks", 0);
  command.svg = flags.text("svg");
  FM_USER_CHECK(
      !flags.given("svg") || (command.action == Action::kPlan && !command.svg.empty()),
      "--svg belongs to --plan and names a file; add --plan, or a name such as plan.svg (",
      command.svg, ")");
  FM_USER_CHECK(!flags.given("ranks_per_host") || command.action == Action::kPlan,
                "--ranks_per_host belongs to --plan; ranks that are started find out by themselves "
                "who shares a host (",
                flags.text("ranks_per_host"), ")");
  FM_USER_CHECK((!flags.given("host_memory") && !flags.given("host_cores")) || !starts,
                "--host_memory and --host_cores belong to --plan; add --plan or remove them");
  if (flags.given("host_memory")) command.host_memory = read_bytes(flags, "host_memory");
  command.host_cores = flags.small("host_cores", 0);
  FM_USER_CHECK((!flags.given("device_memory") && !flags.given("device_card")) ||
                    command.action == Action::kPlan,
                "--device_memory and --device_card belong to --plan; add --plan or remove them");
  if (flags.given("device_memory")) command.device_memory = read_bytes(flags, "device_memory");
  command.device_card = flags.text("device_card");
  read_drives(flags, command);
  for (const FlagRow& flag : train_flags()) {
    if (flag.read != nullptr) flag.read(flags, flag.name, command.options);
  }
  read_length(flags, steps_of_epoch, command);
  read_layout(flags, command.options);
  read_data(flags, command.options);
  read_output(flags, command.options);
  read_trace(flags, command.options);
  read_evaluation(flags, command.options);
  read_reports(flags, command.options);
  read_best_model(flags, command.options);
  read_eval_only(command.options);
  note_document_attention(command.options);
  note_compatible(flags, command.options);
  read_config(flags, command);
  check_tf32(flags, command.options);
  read_pipeline(flags, command.options);
  read_plan(flags, command);
  if (command.micros > 0) return command;
  read_model(flags, command.options);
  read_lora(flags, command.options);
  FM_USER_CHECK(!starts || !command.options.data_path.empty(),
                "training data is required; give --data_path FILE (JSONL or token ids)");
  return command;
}

// "": none
std::string config_file_of(const NormalLine& line) {
  const std::string start = "--config=";
  std::string file;
  for (const std::string& word : line.words) {
    if (word == "--help" || word == "--version") return "";
    if (!word.starts_with(start)) continue;
    FM_USER_CHECK(file.empty(), "--config is given twice; keep one (", file, ", ",
                  word.substr(start.size()), ")");
    file = word.substr(start.size());
  }
  return file;
}

// The Trainer's switches are words of --device, too, which "given twice" would not tell.
void check_device_words(const NormalLine& line) {
  const std::string start = "--device=";
  bool cpu = false;
  std::string other;
  for (const std::string& word : line.words) {
    if (!word.starts_with(start)) continue;
    if (word == start + "cpu") {
      cpu = true;
    } else {
      other = word.substr(start.size());
    }
  }
  FM_USER_CHECK(!cpu || other.empty(),
                "--device must be said once, and --use_cpu and --no_cuda say --device cpu; "
                "keep one (",
                other, ", cpu)");
}

}  // namespace

Command parse_command(std::span<const std::string> words,
                      std::optional<std::int64_t> steps_of_epoch) {
  NormalLine normal = normalise_argv(words, train_flags());
  if (const std::string file = config_file_of(normal); !file.empty()) {
    normal = with_config_file(file, std::move(normal), train_flags());
  }
  complete(normal);
  check_device_words(normal);
  Command command;
  command.options.notes = normal.notes;
  for (const std::string& word : normal.words) {
    if (word == "--help") command.action = Action::kHelp;
    if (word == "--version") command.action = Action::kVersion;
    if (command.action != Action::kTrain) return command;
  }
  return read_command(FlagValues(program(), normal.words), steps_of_epoch, std::move(command));
}

std::string train_help_text() { return help_text(program()); }

std::string version_text() { return std::string("fmengine ") + FM_VERSION; }

}  // namespace fm::cli
