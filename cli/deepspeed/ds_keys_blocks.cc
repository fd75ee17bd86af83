// Blocks beside ZeRO, optimizer and element types. What cannot have an effect is a name in a list:
// it is noted as ignored, and a misspelling of it is met.
#include "cli/deepspeed/ds_config_keys.h"

namespace fm::cli {
namespace {

using enum KeyType;
using enum Verdict;

constexpr std::string_view kWhole = "recomputation keeps one input per block, whole, in memory";
constexpr std::string_view kTensors = "tensor-parallel ranks, as --model_parallel_size";
constexpr std::string_view kNoTensors = "the family says what is cut, by heads and columns";
constexpr std::string_view kUnused = "DeepSpeed itself parses it and never uses it";
constexpr std::string_view kNvme = "nothing is written to NVMe during a step";
constexpr std::string_view kOurSaves =
    "checkpoints are written crash-safe, by name and shape, every rank its own slices";
constexpr std::string_view kService = "checkpoints are written to output_dir by fmengine itself";
constexpr std::string_view kCompiled = "the program is compiled ahead of time";
constexpr std::string_view kPlainWire = "hidden states travel whole between pipe ranks";
constexpr std::string_view kJob = "output_path/job_name is the folder";
constexpr std::string_view kComet = "nothing is sent to Comet";
constexpr std::string_view kFlops = "the profile is that of a whole step, without modules";
constexpr std::string_view kWire = "every operation is counted; --trace shows single ones";
constexpr std::string_view kClock = "every step is timed";
constexpr std::string_view kElastic =
    "elastic batch sizes come later; set the batch keys and disable it";
constexpr std::string_view kElasticOff = "elasticity is off";
constexpr std::string_view kTuner = "there is no autotuner; --plan predicts bytes and bubble";
constexpr std::string_view kCurriculum =
    "curricula change the data order and are not there; disable it";
constexpr std::string_view kCurriculumOff = "data_efficiency is off";

// How a step runs, and what lies on disk.
constexpr KeyRow kRuntime[] = {
    {"activation_checkpointing", kOpen, "", kHonoured,
     "its presence turns recomputation on, as FMEngine reads it", ""},
    {"activation_checkpointing.partition_activations", kBool, "false", kIgnored, kWhole, ""},
    {"activation_checkpointing.number_checkpoints", kInt, "null", kHonoured,
     "segments of blocks that the model is cut into", ""},
    {"activation_checkpointing.contiguous_memory_optimization", kBool, "false", kIgnored, kWhole,
     ""},
    {"activation_checkpointing.cpu_checkpointing", kBool, "false", kIgnored, kWhole, ""},
    {"activation_checkpointing.synchronize_checkpoint_boundary", kBool, "false", kIgnored, kWhole,
     ""},
    {"activation_checkpointing.profile", kBool, "false", kIgnored,
     "metrics.jsonl always holds phases", ""},
    {"aio", kOpen, "", kIgnored, kNvme, ""},
    {"aio.block_size|queue_depth|intra_op_parallelism|thread_count|single_submit|"
     "overlap_events|use_gds",
     kAny, "", kIgnored, kNvme, ""},
    {"pipeline", kOpen, "", kHonoured, "a block", ""},
    {"pipeline.stages", kAny, "auto", kIgnored, kUnused, ""},
    {"pipeline.partition", kText, "best", kHonoured, "as --partition_method", ""},
    {"pipeline.partition_method", kText, "cost", kHonoured, "as --partition_method", ""},
    {"pipeline.schedule", kText, "1f1b", kHonoured, "as --schedule", ""},
    {"pipeline.virtual_stages", kCount, "0", kHonoured, "as --virtual_stages", ""},
    {"pipeline.activation_limit", kNumber, "null", kHonoured, "as --activation_limit", ""},
    {"pipeline.seed_layers", kBool, "false", kIgnored, kUnused, ""},
    {"pipeline.activation_checkpoint_interval", kInt, "0", kHonoured,
     "more than 0 turns recomputation on, of so many blocks together", ""},
    {"pipeline.reduce_every_micro", kBool, "true", kHonoured,
     "false: gradients stay whole and are reduced once per step", ""},
    {"pipeline.post_validation", kBool, "false", kHonoured, "as --post_validation", ""},
    {"pipeline.regather", kText, "micro", kHonoured, "how long gathered weights stay",
     "micro|phase"},
    {"pipeline.pipe_partitioned", kBool, "true", kIgnored, kPlainWire, ""},
    {"pipeline.grad_partitioned", kBool, "true", kIgnored, kPlainWire, ""},
    {"pipeline.use_reentrant", kBool, "true", kIgnored, "there is no autograd", ""},
    {"checkpoint", kOpen, "", kIgnored, kOurSaves, ""},
    {"checkpoint.tag_validation", kText, "", kIgnored, kOurSaves, "ignore|warn|fail"},
    {"checkpoint.use_node_local_storage|checkpoint_serialization", kAny, "", kIgnored, kOurSaves,
     ""},
    {"checkpoint.parallel_write", kOpen, "", kIgnored, kOurSaves, ""},
    {"checkpoint.parallel_write.pipeline_stage", kBool, "", kIgnored, kOurSaves, ""},
    {"checkpoint.writer", kOpen, "", kIgnored, kOurSaves, ""},
    {"checkpoint.writer.type", kText, "", kIgnored, kOurSaves, "mock|python|fast"},
    {"checkpoint.writer.data_parallel", kText, "", kIgnored, kOurSaves, "replica|socket|machine"},
    {"checkpoint.writer.io_buffer_size|io_buffer_double|show_statistics|decoupled|io_multiplier",
     kAny, "", kIgnored, kOurSaves, ""},
    {"checkpoint.load_universal", kAny, "", kIgnored,
     "every checkpoint resumes at any ZeRO stage and size; see --resume", ""},
    {"tensor_parallel", kBlock, "", kHonoured, "a block", ""},
    {"tensor_parallel.autotp_size", kInt, "0|1", kHonoured, kTensors, ""},
    {"tensor_parallel.tp_overlap_comm", kBool, "", kIgnored, kNoTensors, ""},
    {"tensor_parallel.dtype", kAny, "", kIgnored, kNoTensors, ""},
    {"tensor_parallel.partition_config", kOpen, "", kIgnored, kNoTensors, ""},
    {"tensor_parallel.partition_config.use_default_specs|layer_specs", kAny, "", kIgnored,
     kNoTensors, ""},
    {"tensor_parallel.preset_model", kText, "", kIgnored, kNoTensors, ""},
    {"tensor_parallel.tp", kOpen, "", kHonoured, "a block", ""},
    {"tensor_parallel.tp.tp_size", kInt, "1", kHonoured, kTensors, ""},
    {"tensor_parallel.tp.tp_grain_size", kInt, "", kIgnored, kNoTensors, ""},
    {"nebula", kOpen, "", kIgnored, kService, ""},
    {"nebula.enabled", kBool, "false", kIgnored, kService, ""},
    {"nebula.persistent_storage_path|persistent_time_interval|num_of_version_in_retention|"
     "enable_nebula_load|nebula_load_path",
     kAny, "", kIgnored, kService, ""},
    {"datastates_ckpt", kAny, "", kIgnored, kService, ""},
    {"compile", kOpen, "", kIgnored, kCompiled, ""},
    {"compile.deepcompile|free_activation|offload_activation|offload_activation_pin_memory|"
     "offload_opt_states|offload_parameters|double_buffer|symmetric_memory|debug_log|"
     "sync_before_reduce|sync_after_reduce|sync_before_allgather|sync_after_allgather|"
     "keep_int_input_tensors|keep_all_input_tensors",
     kBool, "", kIgnored, kCompiled, ""},
    {"compile.free_activation_threshold", kInt, "", kIgnored, kCompiled, ""},
    {"compile.passes", kTexts, "", kIgnored, kCompiled, "z1|z3|autosp|autotp"},
};

// Monitors, profilers and timers: none of them changes a result (cli/deepspeed/ds_monitor.cc).
constexpr KeyRow kMonitors[] = {
    {"tensorboard", kBlock, "", kHonoured, "a block", ""},
    {"tensorboard.enabled", kBool, "false", kHonoured, "event files", ""},
    {"tensorboard.output_path", kText, "", kHonoured, kJob, ""},
    {"tensorboard.job_name", kText, "", kHonoured, kJob, ""},
    {"wandb", kBlock, "", kHonoured, "a block", ""},
    {"wandb.enabled", kBool, "false", kHonoured, "event files to import, and how", ""},
    {"wandb.group", kText, "", kIgnored, "wandb sync does not take one", ""},
    {"wandb.team", kText, "", kHonoured, "a word of the command that imports them", ""},
    {"wandb.project", kText, "", kHonoured, "a word of the command that imports them", ""},
    {"csv_monitor", kBlock, "", kHonoured, "a block", ""},
    {"csv_monitor.enabled", kBool, "false", kHonoured, "a file per tag", ""},
    {"csv_monitor.output_path", kText, "", kHonoured, kJob, ""},
    {"csv_monitor.job_name", kText, "", kHonoured, kJob, ""},
    {"comet", kBlock, "", kHonoured, "a block", ""},
    {"comet.enabled", kBool, "false", kHonoured, "event files, and a note", ""},
    {"comet.samples_log_interval", kInt, "100", kIgnored, kComet, ""},
    {"comet.project", kText, "", kIgnored, kComet, ""},
    {"comet.workspace", kText, "", kIgnored, kComet, ""},
    {"comet.api_key", kText, "", kIgnored, kComet, ""},
    {"comet.experiment_name", kText, "", kIgnored, kComet, ""},
    {"comet.experiment_key", kText, "", kIgnored, kComet, ""},
    {"comet.online", kBool, "", kIgnored, kComet, ""},
    {"comet.mode", kText, "", kIgnored, kComet, ""},
    {"flops_profiler", kOpen, "", kHonoured, "a block", ""},
    {"flops_profiler.enabled", kBool, "false", kHonoured, "a table after profile_step", ""},
    {"flops_profiler.profile_step", kInt, "1", kHonoured, "the step", ""},
    {"flops_profiler.output_file", kText, "", kHonoured, "instead of stdout", ""},
    {"flops_profiler.detailed", kBool, "", kIgnored, kFlops, ""},
    {"flops_profiler.module_depth|top_modules|recompute_fwd_factor", kAny, "", kIgnored, kFlops,
     ""},
    {"comms_logger", kBlock, "", kHonoured, "a block", ""},
    {"comms_logger.enabled", kBool, "false", kHonoured, "a table at the end", ""},
    {"comms_logger.verbose|prof_all|debug", kBool, "", kIgnored, kWire, ""},
    {"comms_logger.prof_ops", kList, "", kIgnored, kWire, ""},
    {"timers", kOpen, "", kIgnored, kClock, ""},
    {"timers.throughput", kBlock, "", kIgnored, kClock, ""},
    {"timers.throughput.enabled", kBool, "true", kIgnored, kClock, ""},
    {"timers.throughput.synchronized", kBool, "", kIgnored, kClock, ""},
};

// Elasticity, autotuning, and the data curricula.
constexpr KeyRow kTuning[] = {
    {"elasticity", kOpen, "", kHonoured, "a block", ""},
    {"elasticity.enabled", kBool, "false", kRefused, kElastic, ""},
    {"elasticity.max_train_batch_size|micro_batch_sizes|min_gpus|max_gpus|min_time|"
     "prefer_larger_batch|ignore_non_elastic_batch_info|version|model_parallel_size|"
     "num_gpus_per_node",
     kAny, "", kIgnored, kElasticOff, ""},
    {"autotuning", kOpen, "", kIgnored, kTuner, ""},
    {"autotuning.enabled", kBool, "false", kIgnored, kTuner, ""},
    {"autotuning.fast|results_dir|exps_dir|overwrite|start_profile_step|end_profile_step|"
     "metric|metric_path|tuner_type|tuner_early_stopping|tuner_num_trials|arg_mappings|"
     "max_train_batch_size|min_train_batch_size|max_train_micro_batch_size_per_gpu|"
     "min_train_micro_batch_size_per_gpu|num_tuning_micro_batch_sizes|mp_size|model_info|"
     "model_info_path",
     kAny, "", kIgnored, kTuner, ""},
    {"data_efficiency", kOpen, "", kHonoured, "a block", ""},
    {"data_efficiency.enabled", kBool, "false", kRefused, kCurriculum, ""},
    {"data_efficiency.seed", kAny, "", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_sampling", kSwitch, "", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_routing", kSwitch, "", kIgnored, kCurriculumOff, ""},
    {"curriculum_learning", kOpen, "", kHonoured, "a block", ""},
    {"curriculum_learning.enabled", kBool, "false", kRefused, kCurriculum, ""},
    {"curriculum_learning.curriculum_type|min_difficulty|max_difficulty|schedule_type|"
     "schedule_config",
     kAny, "", kIgnored, kCurriculumOff, ""},
};

}  // namespace

std::span<const KeyRow> runtime_keys() { return kRuntime; }
std::span<const KeyRow> monitor_keys() { return kMonitors; }
std::span<const KeyRow> tuning_keys() { return kTuning; }

}  // namespace fm::cli
