#include "engine/state/run_facts.h"

#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/text.h"
#include "engine/plan/between_hosts.h"
#include "engine/plan/pipe_schedule.h"
#include "engine/plan/run_model.h"
#include "engine/plan/sequence_layout.h"
#include "kernels/gemm/gemm.h"
#include "optim/optimizer.h"

namespace fm::engine {
namespace {

using core::concat;
using Facts = std::vector<Fact>;
using Json = nlohmann::json;

Fact fact(std::string name, const Json& value, Uses uses, const char* line = "",
          std::string words = "") {
  return {std::move(name), value.dump(), uses, line, std::move(words)};
}

// Nobody compares it.
Fact only_shown(const char* line, std::string words) {
  return {line, "null", 0, line, std::move(words)};
}

void append(Facts& to, const Facts& more) { to.insert(to.end(), more.begin(), more.end()); }

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// The name of an enumerator on the command line; `words` in the order of the enumeration.
template <class Enumeration>
const char* enum_name(Enumeration value, std::initializer_list<const char*> words) {
  const auto at = static_cast<std::size_t>(value);
  FM_CHECK(at < words.size(), "an enumerator without a word");
  return words.begin()[at];
}

std::string model_words(const model::OpenedModel& opened) {
  const double trained = trained_of(opened);
  const double all = parameters_of(opened);
  return concat(opened.facts.family, ", ", core::human_count(all), " parameters, ",
                trained == all ? "all" : core::human_count(trained),
                " trained: ", opened.facts.sizes);
}

std::string weights_words(const TrainOptions& options) {
  const std::filesystem::path folder = weights_folder(options);
  return folder.empty() ? concat("random, seed ", options.seed) : folder.string();
}

std::string ranks_words(const KnownRun& run) {
  if (run.plan == nullptr) return "";
  const core::Mesh& mesh = run.plan->mesh;
  if (mesh.size() == 1) return concat("1; ", run.launch_decision);
  const std::string sequence = sequence_words(run.plan->shape.split);
  return concat(mesh.size(), " = pipe ", mesh.pipe, " x data ", mesh.data, " x model ", mesh.model,
                run.options.megatron_sequence_parallel ? " with split tokens" : "",
                sequence.empty() ? "" : " x sequence ", sequence, "; ", run.launch_decision);
}

std::string ahead_words(const TrainOptions& options, const RunPlan* plan) {
  if (plan == nullptr || plan->ahead.empty()) return "";
  return concat("steps end before the norm is known after ", options.unclipped_before_ahead,
                " in a row that were not clipped");
}

const char* word_of(core::Tier tier) { return enum_name(tier, {"none", "cpu", "nvme"}); }

std::string batch_words(const RunPlan* plan) {
  if (plan == nullptr) return "";
  return concat(dealt_text(plan->batch, plan->mesh.data), "; ", plan->tokens_per_step(),
                " tokens per step");
}

Json lora_json(const LoraOptions& lora, const model::OpenedModel& opened) {
  if (lora.r == 0) return nullptr;
  Json json = {{"r", lora.r},
               {"scale", lora.scale()},
               {"dropout", lora.dropout},
               {"targets", opened.facts.lora_targets},
               {"modules_to_save", lora.modules_to_save},
               {"start given", !lora.start.empty()}};
  if (!lora.token_rows.empty()) json["trainable_token_indices"] = lora.token_rows;
  return json;
}

std::string lora_words(const LoraOptions& lora, const model::OpenedModel& opened) {
  if (lora.r == 0) return "";
  std::string words = concat("rank ", lora.r, ", scale ", lora.scale(), ", dropout ", lora.dropout,
                             ", of ", core::join(opened.facts.lora_targets, " "));
  if (!lora.modules_to_save.empty()) {
    words += concat("; trained whole: ", core::join(lora.modules_to_save, " "));
  }
  if (!lora.token_rows.empty()) {
    words += concat("; ", lora.token_rows.size(), " rows of the embedding and the head");
  }
  if (!lora.start.empty()) words += concat("; from ", lora.start);
  return words;
}

Facts model_facts(const KnownRun& run) {
  const TrainOptions& o = run.options;
  Facts facts = {only_shown("model", model_words(run.opened))};
  const Json identity = Json::parse(run.opened.facts.identity);
  for (const auto& [key, value] : identity.items()) {
    facts.push_back(fact(key, value, kRanksAgree | kResumeAgrees));
  }
  append(facts, {fact("--train", o.train, kRanksAgree | kResumeAgrees),
                 fact("--freeze", o.freeze, kRanksAgree | kResumeAgrees),
                 fact("LoRA", lora_json(o.lora, run.opened), kRanksAgree | kResumeAgrees, "LoRA",
                      lora_words(o.lora, run.opened)),
                 fact("--add_tokens", o.add_tokens, kRanksAgree | kResumeAgrees),
                 fact("--eos_token", o.eos_token, kRanksAgree | kResumeAgrees),
                 fact("--init_ckpt given", !o.init_ckpt.empty(), kRanksAgree),
                 fact("--pretrain", o.pretrain, kRanksAgree), fact("--seed", o.seed, kRanksAgree),
                 only_shown("weights", weights_words(o))});
  if (!run.frozen_weights.empty()) {
    facts.push_back(fact("frozen weights", run.frozen_weights, kResumeAgrees));
  }
  return facts;
}

// Ranks may read their data from different paths: the fingerprint tells whether it is the same.
Facts data_facts(const KnownRun& run) {
  const TrainOptions& o = run.options;
  return {
      fact("data", run.data.training, kRanksAgree, "data", run.data.description),
      fact("evaluation data", run.data.evaluation, kRanksAgree),
      fact("--eval_data_path or --split given", o.evaluates(), kRanksAgree),
      fact("--packing", enum_name(o.packing, {"concat", "one_document", "best_fit"}), kRanksAgree),
      fact("--document_attention", o.document_attention, kRanksAgree | kResumeSays),
      fact("--max_seq_len", o.max_seq_len, kRanksAgree),
      fact("--allow_repeat", o.allow_repeat, kRanksAgree)};
}

// An own schedule is what its rows say, whatever its file is called.
Json schedule_json(const TrainOptions& o) {
  if (o.auto_schedule) return "auto";
  if (!o.own_schedule) return o.schedule->name;
  std::string rows;
  for (const pipeline::Program& program : o.own_schedule->programs) rows += print(program) + "; ";
  return concat("own, ", rows.size(), " characters, hash ", std::hash<std::string>()(rows));
}

// Numbers of a file that every rank reads by itself.
Json times_json(const TrainOptions& o) {
  Json json;
  if (o.plan_times) {
    const pipeline::PhaseCosts& given = *o.plan_times;
    json["rank"] = {given.forward, given.input, given.weight, given.comm};
  }
  if (!o.unit_times) return json;
  for (const UnitTimes::Phases& unit : {o.unit_times->embedding, o.unit_times->block}) {
    json["units"].push_back({unit.forward, unit.input, unit.weight});
  }
  json["head"] = {o.unit_times->head, o.unit_times->message};
  return json;
}

std::string product_library(const TrainOptions& o) {
  return o.device.kind == DeviceKind::kCuda ? "cuBLASLt" : kernels::gemm_library(o.element);
}

Facts layout_facts(const KnownRun& run) {
  const TrainOptions& o = run.options;
  const RunPlan* const plan = run.plan;
  const char* const order = enum_name(o.sum_order, {"fast", "canonical"});
  const bool shared = plan != nullptr && plan->rules.plan.params == core::Home::kOncePerHost;
  const bool narrow = o.element != core::DType::kF32;
  Facts facts = {
      fact("--pipe_parallel_size", o.pipe_parallel_size, kRanksAgree, "ranks", ranks_words(run)),
      fact("sequence_parallel_size", o.sequence_parallel_size, kRanksAgree),
      fact("--sequence_parallel", enum_name(o.sequence_method, {"auto", "ulysses", "ring", "usp"}),
           kRanksAgree),
      fact("--ulysses_degree", o.ulysses_degree, kRanksAgree),
      fact("--schedule", schedule_json(o), kRanksAgree),
      fact("--virtual_stages", o.virtual_stages, kRanksAgree),
      fact("--activation_limit", or_null(o.activation_limit), kRanksAgree),
      fact("--partition_method", pipeline::name_of(o.partition), kRanksAgree),
      fact("--plan_times", times_json(o), kRanksAgree),
      only_shown("ranks", plan && (o.auto_schedule || plan->schedule != schedule_name(o))
                              ? "schedule " + plan->schedule
                              : ""),
      fact("zero_optimization.stage", o.zero_stage, kRanksAgree, "ZeRO",
           concat("stage ", o.zero_stage)),
      fact("communication_order", order, kRanksAgree, "ZeRO", concat("sums in ", order, " order")),
      fact("activation_checkpointing", o.recompute, kRanksAgree, "ZeRO",
           o.recompute ? "recomputation on" : "recomputation off"),
      fact("pipeline.activation_checkpoint_interval", o.checkpoint_interval, kRanksAgree),
      fact("activation_checkpointing.number_checkpoints", or_null(o.checkpoint_segments),
           kRanksAgree),
      fact("pipeline.reduce_every_micro", o.reductions == core::Reductions::kOfStage, kRanksAgree),
      fact("pipeline.regather", enum_name(o.regather, {"micro", "phase"}), kRanksAgree),
      only_shown("ZeRO", shared ? "parameters once per host" : ""),
      fact("zero_optimization.overlap_comm", o.overlap, kRanksAgree),
      fact("gradients between hosts",
           enum_name(o.gradient_travel, {"fp32", "bf16", "fp16", "int8", "int4"}), kRanksAgree,
           "hosts", plan == nullptr ? "" : core::join(between_hosts_words(o, *plan), "; ")),
      fact("weights between hosts",
           enum_name(o.weight_travel, {"whole", "bf16", "fp16", "int8", "int4"}), kRanksAgree),
      fact("zero_optimization.zero_hpz_partition_size", o.hpz_ranks, kRanksAgree),
      fact("zero_optimization.stage3_prefetch_bucket_size", or_null(o.prefetch_elements),
           kRanksAgree),
      // A resume may go on with any tiers, and ranks may have other folders.
      fact("offload_optimizer", word_of(o.offload.optimizer), kRanksAgree, "tiers",
           offload_words(o)),
      only_shown("tiers", run.stores),
      fact("offload_param", word_of(o.offload.params), kRanksAgree),
      fact("offload buffers",
           {o.offload.optimizer_buffers, o.offload.param_buffers, o.offload.params_in_host},
           kRanksAgree),
      fact("--tile_rows", o.offload.tile_rows, kRanksAgree),
      fact("offload pipeline", {o.offload.reads_ahead, o.offload.writes_behind}, kRanksAgree),
      fact("offload ratio", o.offload.ratio, kRanksAgree),
      fact("--post_validation", o.post_validation, kRanksAgree, "ahead", ahead_words(o, plan)),
      // Resolved once there is a plan, before that as it was given.
      fact("train_batch_size", plan ? Json(plan->batch.train_batch) : or_null(o.batch.train_batch),
           kRanksAgree | kResumeSays, "batch", batch_words(plan)),
      fact("train_micro_batch_size_per_gpu", or_null(o.batch.micro_batch), kRanksAgree),
      fact("gradient_accumulation_steps", or_null(o.batch.accumulation), kRanksAgree),
      fact("precision", core::name_of(o.element), kRanksAgree, "precision",
           narrow ? concat(precision_text(o), "; products: ", product_library(o)) : ""),
  };
  if (o.loss_scale) {
    const std::string scale = optim::describe(*o.loss_scale);
    facts.push_back(fact("fp16.loss_scale", scale, kRanksAgree | kResumeSays, "loss scale", scale));
  }
  return facts;
}

Json json_of(double value) { return value; }
Json json_of(bool value) { return value; }
Json json_of(std::int64_t value) { return value; }
Json json_of(const optim::OptimizerParam::Numbers& value) { return value; }
Json json_of(optim::WarmupType value) { return enum_name(value, {"log", "linear"}); }
Json json_of(optim::Shape value) { return enum_name(value, {"linear", "cosine", "1-sqrt"}); }
template <class T>
Json json_of(const std::optional<T>& value) {
  return or_null(value);
}

// The parameters that the row of a rule names.
template <class Rule, class Options>
void append_params(Facts& facts, const Rule& rule, const Options& options) {
  for (const auto& param : rule.params) {
    const Json value = std::visit([&](auto at) { return json_of(options.*at); }, param.value);
    facts.push_back(fact(param.name, value, kRanksAgree | kResumeSays));
  }
}

Facts scheduler_facts(const SchedulerOptions& scheduler) {
  Facts facts = {fact("scheduler", scheduler.rule->name, kRanksAgree | kResumeSays)};
  append_params(facts, *scheduler.rule, scheduler);
  return facts;
}

Facts optimization_facts(const KnownRun& run) {
  const TrainOptions& o = run.options;
  constexpr Uses kUses = kRanksAgree | kResumeSays;
  const OptimizerOptions& numbers = o.optimizer;
  Facts facts = {
      // A resume asks for the rule by itself, because moments are named after it.
      fact("optimizer", numbers.rule->name, kRanksAgree, "optimizer",
           optimizer_text(o, run.opened)),
      fact("lr", numbers.lr, kUses),
      fact("weight_decay", numbers.weight_decay, kUses),
      fact("gradient_clipping", o.gradient_clipping, kUses),
      fact("loss_reduction", enum_name(o.loss_reduction, {"token", "mean_of_means"}), kUses),
      fact("no_decay", {o.no_decay.norm, o.no_decay.bias, o.no_decay.embedding}, kUses)};
  append_params(facts, *numbers.rule, numbers);
  return facts;
}

// Length, rhythm and output: ranks that disagree would wait for each other.
Facts course_facts(const TrainOptions& o) {
  return {fact("--train_steps", o.train_steps, kRanksAgree),
          fact("--save_steps", o.save_steps, kRanksAgree),
          fact("--save_strategy",
               o.save_best ? "best"
               : o.saves   ? "steps"
                           : "no",
               kRanksAgree),
          fact("--save_async", o.save_async, kRanksAgree),
          fact("--keep_last", o.keep_last, kRanksAgree),
          fact("--export_dtype", o.export_dtype ? core::name_of(*o.export_dtype) : "as_init",
               kRanksAgree),
          fact("--eval_only", o.eval_only, kRanksAgree),
          fact("--eval_steps", o.eval_steps, kRanksAgree),
          fact("--eval_batches", o.eval_batches, kRanksAgree),
          fact("--load_best_model_at_end", o.load_best_model, kRanksAgree),
          fact("--early_stopping_patience", o.early_stopping_patience, kRanksAgree),
          fact("--early_stopping_threshold", o.early_stopping_threshold, kRanksAgree),
          fact("--resume", enum_name(o.resume, {"auto", "must", "never", "a path"}), kRanksAgree),
          fact("--dry_run", o.dry_run, kRanksAgree),
          fact("--dump_gradients given", !o.dump_gradients.empty(), kRanksAgree),
          fact("--trace given", !o.trace.empty(), kRanksAgree),
          fact("--trace_steps", {o.trace_steps.first, o.trace_steps.last}, kRanksAgree),
          fact("--timeout_s", o.timeout_ms / 1000, kRanksAgree),
          fact("--hang_s", o.hang_ms / 1000, kRanksAgree)};
}

}  // namespace

std::vector<Fact> run_facts(const KnownRun& run) {
  Facts all = model_facts(run);
  append(all, data_facts(run));
  append(all, layout_facts(run));
  append(all, optimization_facts(run));
  append(all, scheduler_facts(run.options.scheduler));
  append(all, course_facts(run.options));
  return all;
}

std::string values_for(Uses use, const std::vector<Fact>& facts) {
  Json values = Json::object();
  for (const Fact& one : facts) {
    if ((one.uses & use) != 0) values[one.name] = Json::parse(one.json);
  }
  return values.dump();
}

std::vector<std::pair<std::string, std::string>> lines_of(const std::vector<Fact>& facts) {
  std::vector<std::pair<std::string, std::string>> lines;
  for (const Fact& one : facts) {
    if (one.words.empty()) continue;
    if (!lines.empty() && lines.back().first == one.line) {
      lines.back().second += ", " + one.words;
    } else {
      lines.emplace_back(one.line, one.words);
    }
  }
  return lines;
}

std::string banner_lines(const std::vector<Fact>& facts) {
  std::string out;
  for (const auto& [name, words] : lines_of(facts)) {
    std::string head = "  " + name;
    head.resize(13, ' ');
    out += head + words + "\n";
  }
  return out;
}

std::string offload_words(const TrainOptions& options) {
  const OffloadOptions& offload = options.offload;
  const auto words = [&](const char* role, core::Tier tier, const std::vector<std::string>& paths) {
    if (tier == core::Tier::kNvme) return concat(role, " on NVMe (", core::join(paths, ", "), ")");
    const bool beside = tier == core::Tier::kHost && options.device.kind != DeviceKind::kCpu;
    return beside ? concat(role, " in host memory") : std::string();
  };
  const std::string optimizer = words("optimizer", offload.optimizer, offload.optimizer_paths);
  const std::string params = words("parameters", offload.params, offload.param_paths);
  return concat(optimizer, optimizer.empty() || params.empty() ? "" : ", ", params);
}

double decayed_of(const model::OpenedModel& opened) {
  double parameters = 0.0;
  for (int unit = 0; unit < opened.model.table_count(); ++unit) {
    const core::ParamTable& table = opened.model.table(unit);
    for (const core::ParamEntry& entry : table.entries()) {
      if (entry.offset >= table.decayed()) continue;
      if (opened.model.share.count == 1) {  // a tile has some of the tensor
        parameters += static_cast<double>(entry.numel.count());
        continue;
      }
      double count = 1.0;  // of all tensor-parallel ranks
      for (const std::int64_t dim : entry.shape) count *= static_cast<double>(dim);
      parameters += count;
    }
  }
  return parameters;
}

double trained_of(const model::OpenedModel& opened) {
  double parameters = 0.0;
  for (int unit = 0; unit < opened.model.table_count(); ++unit) {
    parameters += static_cast<double>(opened.model.table(unit).parameters().count());
  }
  return parameters;
}

double parameters_of(const model::OpenedModel& opened) {
  double parameters = trained_of(opened);
  for (int unit = 0; unit < opened.model.table_count(); ++unit) {
    const core::ParamTable* const frozen = opened.model.frozen_table(unit);
    if (frozen != nullptr) parameters += static_cast<double>(frozen->parameters().count());
  }
  return parameters;
}

std::string optimizer_text(const TrainOptions& options, const model::OpenedModel& opened) {
  std::string text =
      optim::describe(options.optimizer, options.scheduler, options.gradient_clipping);
  std::vector<std::string> kinds;
  if (options.no_decay.norm) kinds.emplace_back("norms");
  if (options.no_decay.bias) kinds.emplace_back("biases");
  if (options.no_decay.embedding) kinds.emplace_back("embedding and head");
  if (kinds.empty()) return text;
  const double decayed = decayed_of(opened);
  const auto exact = [](double count) {
    return core::grouped(std::to_string(std::llround(count)));
  };
  return text + concat(", no decay of ", core::join(kinds, ", "), ": ", exact(decayed),
                       " parameters decay, ", exact(trained_of(opened) - decayed), " do not");
}

std::string precision_text(const TrainOptions& options) {
  if (options.element == core::DType::kF32) return "fp32";
  return concat(core::name_of(options.element), " compute (fp32 master weights and gradients)");
}

}  // namespace fm::engine
