#include "cli/deepspeed/ds_config.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cli/deepspeed/ds_monitor.h"
#include "cli/deepspeed/ds_pipeline.h"
#include "cli/deepspeed/value_types.h"
#include "cli/peft_folder.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::cli {
namespace {

using core::DType;

// Given numbers are passed on as they are: the engine resolves the triad once it knows dp_size.
void apply_batch(const JsonView& settings, engine::BatchTriad& batch) {
  struct Part {
    const char* key;
    std::optional<std::int64_t>* target;
  };
  const Part parts[] = {{"train_batch_size", &batch.train_batch},
                        {"train_micro_batch_size_per_gpu", &batch.micro_batch},
                        {"gradient_accumulation_steps", &batch.accumulation}};
  for (const Part& part : parts) {
    if (const JsonTree* value = settings.get(part.key)) *part.target = to_int(*value);
  }
}

// FMEngine's "lora": {"r": 8, "lora_alpha": 16, "lora_dropout": 0.05}; {} is off.
void apply_lora(const JsonView& settings, engine::TrainOptions& options) {
  const JsonTree* const block = settings.get("lora");
  if (block == nullptr || block->members.empty()) return;
  engine::LoraOptions& lora = options.lora;
  lora.r = settings.integer("lora.r", 8);  // peft's default
  lora.alpha = settings.number("lora.lora_alpha", lora.alpha);
  lora.dropout = settings.number("lora.lora_dropout", lora.dropout);
  check_lora(lora, settings.where("lora"));
}

void apply_zero(const JsonView& settings, Findings& findings, engine::TrainOptions& options) {
  const JsonTree* block = settings.get("zero_optimization");
  if (block == nullptr) return;
  if (block->kind == JsonKind::kBool) {
    options.zero_stage = block->boolean ? 1 : 0;
    findings.notes.push_back(
        core::concat("\"zero_optimization\" as true or false is deprecated, use {\"stage\": ",
                     options.zero_stage, "} (") +
        settings.where("zero_optimization") + ")");
    return;
  }
  const std::string path = "zero_optimization.stage";
  const std::int64_t zero_stage = settings.integer(path, 0);
  FM_USER_CHECK(zero_stage >= 0 && zero_stage <= 3, path, " must be 0, 1, 2 or 3; choose one (",
                settings.where(path), ": ", zero_stage, ")");
  options.zero_stage = static_cast<int>(zero_stage);
}

void apply_overlap(const JsonView& settings, engine::TrainOptions& options) {
  options.overlap = settings.flag("zero_optimization.overlap_comm", true);
  for (const std::string path : {"zero_optimization.prefetch_bucket_size",
                                 "zero_optimization.stage3_prefetch_bucket_size"}) {
    if (settings.get(path) != nullptr) options.prefetch_elements = settings.integer(path, 0);
  }
}

void apply_tensor_parallel(const JsonView& settings, engine::TrainOptions& options) {
  for (const std::string path : {"tensor_parallel.autotp_size", "tensor_parallel.tp.tp_size"}) {
    const std::int64_t size = settings.integer(path, 0);
    if (settings.get(path) == nullptr || size == 0 || size == 1) continue;
    constexpr std::int64_t kMost = 1024;
    FM_USER_CHECK(size > 0 && size <= kMost, path, " must be 0 to ", kMost, "; correct it (",
                  settings.where(path), ": ", size, ")");
    FM_USER_CHECK(options.model_parallel_size == 1 || options.model_parallel_size == size, path,
                  " must agree with other sizes of tensor parallelism; name it once (",
                  settings.where(path), ": ", size,
                  ", model_parallel_size=", options.model_parallel_size, ")");
    options.model_parallel_size = static_cast<int>(size);
  }
}

void apply_clipping(const JsonView& settings, engine::TrainOptions& options) {
  const std::string path = "gradient_clipping";
  options.gradient_clipping = settings.number(path, engine::kGradientClipping);
  FM_USER_CHECK(options.gradient_clipping >= 0,
                "gradient_clipping must not be negative; 0 turns it off (", settings.where(path),
                ": ", options.gradient_clipping, ")");
}

void apply_sum_order(const JsonView& settings, engine::TrainOptions& options) {
  const bool canonical = core::lower(settings.text("communication_order", "fast")) == "canonical";
  options.sum_order = canonical ? core::SumOrder::kCanonical : core::SumOrder::kFast;
}

void apply_sequence(const JsonView& settings, engine::TrainOptions& options) {
  const std::string path = "sequence_parallel_size";
  const std::int64_t ranks = settings.integer(path, options.sequence_parallel_size);
  const int flag = options.sequence_parallel_size;
  FM_USER_CHECK(ranks >= 1 && ranks <= std::numeric_limits<int>::max(), path,
                " must be at least 1; correct it (", settings.where(path), ": ", ranks, ")");
  FM_USER_CHECK(flag == 1 || flag == ranks, "--", path,
                " must be what the JSON says where both say it; correct one (flag ", flag, ", ",
                settings.where(path), ": ", ranks, ")");
  options.sequence_parallel_size = static_cast<int>(ranks);
}

// DeepSpeed's optimizers decay every parameter. The Trainer's has two groups (transformers'
// get_decay_parameter_names), which are alike where nothing decays.
void apply_groups(const TrainerArguments& trainer, bool of_trainer, engine::TrainOptions& options) {
  const bool two = of_trainer && options.optimizer.weight_decay > 0.0;
  options.no_decay = trainer.no_decay.value_or(core::NoDecay{.norm = two, .bias = two});
}

// What was probably written for `type`: " instead of "typ"", or "".
std::string mistyped(const JsonTree& block) {
  for (const JsonTree::Member& member : block.members) {
    const bool near = !core::nearest(member.key, std::vector<std::string>{"type"}).empty();
    if (near && member.key != "type") return " instead of \"" + member.key + "\"";
  }
  return "";
}

constexpr std::string_view kOtherwise = "; change it, or give --precision bf16, fp16 or fp32";

// `path = "value"`, as the walk over the keys says it.
std::string said(const JsonView& settings, const std::string& path) {
  return core::concat(path, " = ", show(*settings.get(path)));
}

// What the blocks say; nothing where none speaks, and FMEngine's "precision" decides.
std::optional<DType> from_blocks(const JsonView& settings, Findings& findings) {
  const std::string block = settings.get("bfloat16") != nullptr ? "bfloat16" : "bf16";
  const std::string bf16 = block + ".enabled";
  const std::string fp16 = "fp16.enabled";
  if (settings.get(bf16) == nullptr && settings.get(fp16) == nullptr) return std::nullopt;
  const bool narrow = settings.flag(bf16, false);
  if (!settings.flag(fp16, false)) return narrow ? DType::kBF16 : DType::kF32;
  if (narrow) {
    // The one that the file says, where the other is a flag's.
    const std::string named = findings.origins.contains(bf16) ? fp16 : bf16;
    findings.refuse(settings.line(named), said(settings, named),
                    "bfloat16 and fp16 modes cannot be simultaneously enabled");
  }
  return DType::kF16;
}

DType element_of(const JsonView& settings, Findings& findings) {
  const std::string path = "precision";
  const std::optional<DType> named = dtype_named(settings.text(path, ""));
  const std::optional<DType> blocks = from_blocks(settings, findings);
  if (named && blocks && *named != *blocks) {
    findings.refuse(settings.line(path), said(settings, path),
                    core::concat("must agree with the blocks \"bf16\" and \"fp16\", which say ",
                                 core::name_of(*blocks), kOtherwise));
  }
  return blocks.value_or(named.value_or(DType::kF32));
}

std::int64_t positive(const JsonView& settings, const std::string& path, std::int64_t otherwise) {
  const std::int64_t value = settings.integer(path, otherwise);
  FM_USER_CHECK(value > 0, path, " must be greater than 0; correct it (", settings.where(path),
                ": ", value, ")");
  return value;
}

// DeepSpeed's scaler of ZeRO 0 halves at once, and stays at the least scale.
optim::LossScaleOptions loss_scale_of(const JsonView& settings, int zero_stage) {
  optim::LossScaleOptions out;
  out.fixed = checked_number(settings, "fp16.loss_scale", 0.0);
  if (out.fixed > 0.0) return out;
  const std::string power = "fp16.initial_scale_power";
  const std::int64_t exponent = settings.integer(power, 16);
  FM_USER_CHECK(exponent >= 0 && exponent <= 64, power, " must lie in [0, 64]; correct it (",
                settings.where(power), ": ", exponent, ")");
  out.first = std::ldexp(1.0, static_cast<int>(exponent));
  out.window = positive(settings, "fp16.loss_scale_window", 1000);
  out.least = static_cast<double>(positive(settings, "fp16.min_loss_scale", 1));
  out.hysteresis = zero_stage == 0 ? 1 : positive(settings, "fp16.hysteresis", 2);
  out.refills_when_clean = settings.flag("fp16.consecutive_hysteresis", false);
  out.ends_at_least = zero_stage > 0;
  return out;
}

constexpr std::int64_t kMostBlocks = 1'000'000;

constexpr const char* kInterval = "pipeline.activation_checkpoint_interval";
constexpr const char* kSegments = "activation_checkpointing.number_checkpoints";
constexpr const char* kEveryMicro = "pipeline.reduce_every_micro";
constexpr const char* kRegather = "pipeline.regather";

std::int64_t counted(const JsonView& settings, const std::string& path, std::int64_t least) {
  const std::int64_t value = settings.integer(path, least);
  FM_USER_CHECK(value >= least && value <= kMostBlocks, path, " must be at least ", least,
                " and at most ", kMostBlocks, "; correct it (", settings.where(path), ": ", value,
                ")");
  return value;
}

void apply_precision(const JsonView& settings, PrecisionFlag flag, Findings& findings,
                     engine::TrainOptions& options) {
  options.element = flag ? *flag : element_of(settings, findings);
  const std::string param = "data_types.param_dtype";
  if (!flag && settings.get(param) != nullptr &&
      dtype_named(settings.text(param, "")) != options.element) {
    findings.refuse(settings.line(param), said(settings, param),
                    core::concat("conflicts with the enabled precision mode, ",
                                 core::name_of(options.element), kOtherwise));
  }
  if (options.element == DType::kF16) {
    options.loss_scale = loss_scale_of(settings, options.zero_stage);
  }
}

void apply_recompute(const JsonView& settings, Findings& findings, engine::TrainOptions& options) {
  const bool block = settings.get("activation_checkpointing") != nullptr;
  const std::int64_t interval = counted(settings, kInterval, 0);
  options.recompute = block || interval > 0;
  if (interval > 0) options.checkpoint_interval = static_cast<int>(interval);
  if (!block) return;
  if (!options.recompute_refused) {
    findings.notes.push_back(
        core::concat("recomputation is on because \"activation_checkpointing\" is there, whatever "
                     "it holds; remove the block to turn it off, or give --gradient_checkpointing "
                     "false (",
                     settings.where("activation_checkpointing"), ")"));
  }
  if (settings.get(kSegments) == nullptr) return;
  const std::int64_t segments = counted(settings, kSegments, 1);
  if (interval == 0) {
    options.checkpoint_segments = static_cast<int>(segments);
  } else {
    findings.notes.push_back(core::concat(kSegments, " has no effect beside ", kInterval, " (",
                                          settings.where(kSegments), ")"));
  }
}

void apply_pipeline(const JsonView& settings, Findings& findings, engine::TrainOptions& options) {
  if (settings.get(kEveryMicro) != nullptr) {
    const bool every = settings.flag(kEveryMicro, true);
    const bool canonical = options.sum_order == core::SumOrder::kCanonical;
    FM_USER_CHECK(!every || canonical || options.zero_stage >= 2, kEveryMicro,
                  " needs ZeRO 2 or 3 or the canonical order, because ZeRO 0 and 1 keep gradients "
                  "whole; remove it (",
                  settings.where(kEveryMicro), ": zero_optimization.stage ", options.zero_stage,
                  ")");
    if (!every && options.zero_stage >= 2) options.reductions = core::Reductions::kOncePerStep;
    if (!every && canonical) {
      findings.notes.push_back(core::concat(kEveryMicro,
                                            " false keeps gradients whole, but the canonical order "
                                            "sums them over ranks for every micro-batch (",
                                            settings.where(kEveryMicro), ")"));
    }
  }
  if (settings.get(kRegather) == nullptr) return;
  FM_USER_CHECK(options.zero_stage == 3, kRegather,
                " needs ZeRO 3, because the other stages gather nothing; remove it (",
                settings.where(kRegather), ": zero_optimization.stage ", options.zero_stage, ")");
  const bool by_phase = core::lower(settings.text(kRegather, "micro")) == "phase";
  options.regather_chosen = true;
  options.regather = by_phase ? core::Regather::kPhase : core::Regather::kMicro;
}

}  // namespace

std::string block_type(const JsonView& settings, const std::string& block,
                       const std::string& resolved, Findings& findings) {
  const std::string path = block + ".type";
  if (settings.asks_auto(path)) {
    findings.notes.push_back("\"auto\": " + path + " is \"" + resolved + "\" (" +
                             settings.where(path) + ")");
    return resolved;
  }
  std::string type = settings.text(path, "");
  const JsonTree* value = settings.get(block);
  if (!type.empty() || value == nullptr) return type;
  const bool holds =
      std::any_of(value->members.begin(), value->members.end(),
                  [](const JsonTree::Member& each) { return each.value.kind != JsonKind::kNull; });
  FM_USER_CHECK(!holds, path, " is required; write \"type\": \"", resolved, "\"", mistyped(*value),
                ", or remove the block (", settings.where(block), ")");
  return "";
}

double checked_number(const JsonView& settings, const std::string& path, double otherwise) {
  const double value = settings.number(path, otherwise);
  const bool fits = value >= 0 && value <= std::numeric_limits<float>::max();
  FM_USER_CHECK(fits, path, " must not be negative and must be finite in fp32; correct it (",
                settings.where(path), ": ", value, ")");
  return value;
}

void check_params(const JsonView& settings, const std::string& block, const std::string& type,
                  std::span<const std::string> known) {
  const JsonTree* params = settings.get(block);
  if (params == nullptr) return;
  for (const auto& [key, value] : params->members) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string where = settings.where(core::concat(block, ".", key));
    const std::string near = core::nearest(key, known);
    FM_USER_CHECK(false, type, " takes no parameter \"", key, "\"; ",
                  near.empty() ? "remove it" : "did you mean \"" + near + "\"?", " (", where, ")");
  }
}

std::vector<ConfigValue> apply_ds_config(const ConfigText& config, const ConfigFlags& how,
                                         const TrainerArguments& trainer,
                                         engine::TrainOptions& options) {
  JsonTree root = parse_hjson(config.text, config.name);
  FM_USER_CHECK(root.is_object(),
                "a DeepSpeed configuration must be one object {...}; correct it (", config.name,
                ")");
  Findings findings;
  const TrainersShare trainers = fill_from_trainer(trainer, options.train_steps, root, findings);
  const JsonView settings(root, config.name);
  check_settings(root, config.name, how.precision, how.unknown, findings);
  const auto read = [&](const std::function<void()>& part) { findings.collect(config.name, part); };
  read([&] { apply_batch(settings, options.batch); });
  read([&] { apply_zero(settings, findings, options); });
  // The loss scale follows the stage.
  read([&] { apply_precision(settings, how.precision, findings, options); });
  if (how.precision) findings.origins["precision"] = "--precision";
  read([&] { apply_offload(settings, how.offload, findings, options); });
  read([&] { apply_recompute(settings, findings, options); });
  apply_overlap(settings, options);
  read([&] { apply_tensor_parallel(settings, options); });
  read([&] { apply_schedule(settings, options); });
  read([&] { apply_clipping(settings, options); });
  apply_sum_order(settings, options);
  read([&] { apply_sequence(settings, options); });
  read([&] { apply_between_hosts(settings, findings, options); });
  read([&] { apply_pipeline(settings, findings, options); });
  read([&] { apply_lora(settings, options); });
  read([&] { apply_monitors(settings, trainer, findings, options); });
  read([&] { apply_optimizer(settings, findings, options); });
  apply_groups(trainer, trainers.optimizer, options);
  read([&] {
    const bool told = apply_decay_style(settings, trainer, findings, options) ||
                      apply_scheduler(settings, findings, options);
    if (!told && trainers.schedule) apply_trainer_schedule(trainer, findings, options);
  });
  throw_problems(findings, config.name);
  const std::vector<std::string> notes = to_notes(findings);
  options.notes.insert(options.notes.end(), notes.begin(), notes.end());
  return config_values(root, config.name, findings);
}

}  // namespace fm::cli
