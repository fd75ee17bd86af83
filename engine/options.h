// Everything a training run was asked to do, typed. cli fills it from flags, DeepSpeed JSON and
// environment; nothing below cli knows where a value came from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/find_checkpoint.h"
#include "comm/travel.h"
#include "core/param_table.h"
#include "core/shard_plan.h"
#include "engine/device_options.h"
#include "engine/lora_options.h"
#include "engine/monitor_options.h"
#include "engine/offload_options.h"
#include "engine/rows_left_open.h"
#include "optim/loss_scaler.h"
#include "optim/lr_schedule.h"
#include "optim/optimizer.h"
#include "pipeline/partition.h"
#include "pipeline/schedule_csv.h"
#include "pipeline/schedules/schedules.h"
#include "text/data/sample_source.h"

namespace fm::engine {

inline constexpr double kGradientClipping = 1.0;  // where nothing is said; 0: off

enum class LossReduction : std::uint8_t { kToken, kMeanOfMeans };

// How sequence ranks share attention (engine/plan/sequence_layout.h). kAuto: Ulysses where there
// are heads for all, else ring.
enum class SequenceMethod : std::uint8_t { kAuto, kUlysses, kRing, kUsp };

// The batch triad as given; the engine resolves it (DeepSpeed's rules) once it knows dp_size.
struct BatchTriad {
  std::optional<std::int64_t> train_batch;
  std::optional<std::int64_t> micro_batch;
  std::optional<std::int64_t> accumulation;
};

using optim::OptimizerOptions;
using optim::SchedulerOptions;
using optim::WarmupType;

// What the parts of a model take, measured in an earlier run, in microseconds.
struct UnitTimes {
  struct Phases {
    double forward = 0.0;
    double input = 0.0;
    double weight = 0.0;
    double whole() const { return forward + input + weight; }
  };
  Phases embedding, block;
  double head = 0.0;     // forward and whole backward
  double message = 0.0;  // between pipe ranks
};

struct TrainOptions {
  // model and data
  std::string init_ckpt;     // Hugging Face folder, or empty
  std::string model_config;  // Hugging Face config.json with random weights, or empty
  bool pretrain = false;     // FMEngine: do not load weights of init_ckpt
  // Regular expressions (engine/plan/trained_names.h); empty: every parameter is trained.
  std::string train, freeze;
  LoraOptions lora;
  std::vector<std::string> data_path, eval_data_path;  // words (data::SourceOptions)
  data::DataFormat data_format = data::DataFormat::kAuto;
  data::TokenType token_type = data::TokenType::kAuto;
  bool shuffle_windows = false;  // where documents are not known
  data::Split split;             // of data_path
  std::int64_t skip_bad_lines = 0;
  data::Packing packing = data::Packing::kConcat;
  bool document_attention = false;  // attention and positions stay inside a document
  std::string text_field = "text";
  bool text_first = false;  // text_field was given: a line that has it is text
  data::RowOptions rows = {};
  std::string tokenizer;      // folder or file; "": that of init_ckpt, else the byte tokenizer
  std::string chat_template;  // file; "": that of the tokenizer's folder
  // Beside those of the tokenizer (engine/plan/run_tokens.h).
  std::vector<std::string> add_tokens;
  std::string eos_token;  // "": as the tokenizer says
  std::string cache_dir;  // of tokens that were made of text; "": output_dir/tokens
  bool train_on_inputs = false;
  std::optional<bool> assistant_only_loss;   // else train_on_inputs says it
  std::optional<bool> completion_only_loss;  // the same
  std::int64_t max_seq_len = 128;
  RowsLeftOpen left_open;     // of packing, document_attention and max_seq_len
  bool allow_repeat = false;  // a step may hold a sample more than once
  std::uint64_t seed = 3407;
  // length and rhythm
  double train_epochs = 0.0;  // that train_steps were counted from; 0: from none
  std::int64_t train_steps = 100;
  std::int64_t save_steps = 100;
  bool saves = true;  // false: neither checkpoints nor an export, but on a signal
  // Checkpoints between steps are written from a copy while training goes on, if there is memory.
  bool save_async = true;
  std::int64_t log_steps = 1;
  bool log_phases = false;  // with every line; else with every tenth
  std::int64_t eval_steps = 100;
  std::int64_t eval_batches = 0;  // 0: the whole evaluation set once
  bool eval_only = false;         // of the weights that a run would go on with; nothing is trained
  // layout
  int pipe_parallel_size = 1;
  int model_parallel_size = 1;
  bool megatron_sequence_parallel = false;  // of tensor-parallel ranks each has some tokens
  int sequence_parallel_size = 1;
  SequenceMethod sequence_method = SequenceMethod::kAuto;
  int ulysses_degree = 0;  // with kUsp; 0: the smallest divisor of sequence ranks above 1
  int zero_stage = 0;
  core::SumOrder sum_order = core::SumOrder::kFast;
  const pipeline::ScheduleRow* schedule = &pipeline::default_schedule();
  bool schedule_chosen = false;  // by the user; else it may give way (plan/default_schedule.h)
  bool auto_schedule = false;  // the one with the least predicted time that fits (auto_schedule.h)
  std::shared_ptr<const pipeline::OwnSchedule> own_schedule;  // instead of `schedule`
  // Pipe ranks end a step before its whole norm is known, after so many not clipped nor skipped.
  bool post_validation = false;
  int unclipped_before_ahead = 10;
  int virtual_stages = 0;  // chunks per pipe rank; 0: the schedule's own number
  pipeline::PartitionMethod partition;
  // Micro-batches that a pipe rank may keep, for schedules that search; unset: their own number.
  std::optional<double> activation_limit;
  // What predictions, searched schedules and the cut of the model go by; both unset: by FLOPs. Of a
  // rank, which its units share by FLOPs; of units, which wins.
  std::optional<pipeline::PhaseCosts> plan_times;
  std::optional<UnitTimes> unit_times;
  core::Reductions reductions = core::Reductions::kOfStage;
  core::Regather regather = core::Regather::kMicro;
  bool regather_chosen = false;  // by the user
  bool recompute = false;
  // With `recompute`: blocks whose first input alone is kept; or how many such segments there are.
  int checkpoint_interval = 1;
  std::optional<int> checkpoint_segments;
  // Between hosts, messages of gathers, reductions and publications travel while units compute.
  bool overlap = true;
  // Elements gathered ahead of their use under ZeRO 3; unset: the largest unit's.
  std::optional<std::int64_t> prefetch_elements;
  // Between hosts (docs/between_hosts.md): gradients, and the weights that ZeRO 3 gathers; and how
  // many data ranks of a host keep what was gathered, 1: none.
  comm::Travel gradient_travel = comm::Travel::kWhole;
  comm::Travel weight_travel = comm::Travel::kWhole;
  int hpz_ranks = 1;
  // Of parameters, hidden states and their gradients. kBF16, kF16: the optimizer updates an fp32
  // master, and gradients of parameters are fp32.
  core::DType element = core::DType::kF32;
  std::optional<optim::LossScaleOptions> loss_scale;  // with kF16
  BatchTriad batch;
  // optimization
  OptimizerOptions optimizer;
  SchedulerOptions scheduler;
  double gradient_clipping = kGradientClipping;  // 0: off
  core::NoDecay no_decay;
  LossReduction loss_reduction = LossReduction::kToken;
  int max_consecutive_skips = 10;
  // Needs evaluation data: the model of the best evaluation is saved and exported in the end.
  bool load_best_model = false;
  bool recompute_refused = false;  // --gradient_checkpointing false, which goes before the JSON
  bool save_best = false;  // --save_strategy best: that of the best evaluation, and the last one
  std::int64_t early_stopping_patience = 0;  // evaluations that are no better; 0: never
  double early_stopping_threshold = 0.0;
  int max_failed_saves = 3;  // in a row; one more than the run can afford to lose
  // output
  std::string output_dir = "./output";
  checkpoint::Resume resume = checkpoint::Resume::kAuto;
  std::string resume_path;
  std::vector<std::string> jobs;  // of the launchers of this start, for its checkpoints' Lineage
  int keep_last = 0;
  // Of the weights in output_dir/hf; unset: the type of those in init_ckpt, fp32 where there are
  // none (engine/state/export_dtype.h).
  std::optional<core::DType> export_dtype;
  bool dry_run = false;        // the plan is printed first, and nothing is written
  std::string dump_gradients;  // safetensors file: gradients of the first step, then stop
  std::string trace;           // Chrome trace of some steps, or empty
  TraceSteps trace_steps;
  MonitorOptions monitors;
  bool blackbox = true;  // each rank's last operations in output_dir/blackbox
  int timeout_ms = 600'000;
  // Between SIGTERM and SIGKILL; 0: without end; unset: what the launcher is known to give.
  std::optional<std::int64_t> grace_s;
  int hang_ms = 10'000;       // of a rank that is stopped or does not move; 0: no limit
  bool shared_memory = true;  // between ranks of one host
  std::string interfaces;     // of which ranks use the first that is there
  DeviceOptions device;
  OffloadOptions offload;
  int ranks_per_host = 8;  // for a plan of ranks that were not started
  std::string project_name = "fmengine";
  std::string experiment_name = "experiment";
  std::vector<std::string> notes;  // for banner and plan: what was ignored, and why

  bool saves_best() const { return save_best || load_best_model; }
  bool evaluates() const { return !eval_data_path.empty() || split.evaluation > 0.0; }
};

}  // namespace fm::engine
