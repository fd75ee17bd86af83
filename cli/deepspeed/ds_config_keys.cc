#include "cli/deepspeed/ds_config_keys.h"

#include <algorithm>

#include "core/check.h"
#include "core/text.h"

namespace fm::cli {
namespace {

using enum KeyType;
using enum Verdict;

constexpr DeprecatedKey kDeprecated[] = {
    {"zero_optimization.stage3_gather_fp16_weights_on_model_save",
     "zero_optimization.gather_16bit_weights_on_model_save"},
    {"zero_optimization.cpu_offload", "zero_optimization.offload_optimizer"},
    {"zero_optimization.cpu_offload_param", "zero_optimization.offload_param"},
    {"bfloat16", "bf16"},
};

struct SplitPath {
  std::string_view parent;  // "" at the top level
  std::string_view name;
};

SplitPath split_path(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  if (dot == std::string_view::npos) return {"", path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

// Whether `names` ("group|team") holds `name`.
bool holds(std::string_view names, std::string_view name) {
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find('|', begin), names.size());
    if (names.substr(begin, end - begin) == name) return true;
    begin = end + 1;
  }
  return false;
}

constexpr std::string_view kRounding =
    "it moves a division before or after a sum; here sums are fixed trees, divided once";
constexpr std::string_view kUnused = "DeepSpeed itself parses it and never uses it";
constexpr std::string_view kNoMoe = "there are no experts";
constexpr std::string_view kModelGives = "the model's config.json gives it";
constexpr std::string_view kAlwaysFullRows = "the data is an endless order of whole batches";
constexpr std::string_view kAbsent = "this technique is not part of fmengine; remove the block";

constexpr KeyRow kTopRows[] = {
    {"train_batch_size", kInt, "", kHonoured, "samples of one step, all ranks", ""},
    {"train_micro_batch_size_per_gpu", kInt, "", kHonoured, "rows of one micro-batch", ""},
    {"gradient_accumulation_steps", kInt, "", kHonoured, "micro-batches of one step", ""},
    {"gradient_clipping", kNumber, "1", kHonoured, "limit of the global norm; 0: off", ""},
    {"zero_allow_untested_optimizer", kBool, "false", kHonoured, "SGD with ZeRO needs it", ""},
    {"communication_order", kText, "fast", kHonoured, "order of sums (ours)", "fast|canonical"},
    {"steps_per_print", kInt, "null", kHonoured, "--log_steps, where that is not given", ""},
    {"prescale_gradients", kBool, "false", kIgnored, kRounding, ""},
    {"gradient_predivide_factor", kNumber, "1", kIgnored, kRounding, ""},
    {"gradient_allreduce_op", kText, "mean", kRefused,
     "a sum without averaging is not there; use \"mean\" and scale the learning rate", "mean|sum"},
    {"managed_gradient_accumulation", kBool, "true", kRefused,
     "the trainer always manages accumulation; remove it", ""},
    {"sparse_gradients", kBool, "false", kIgnored,
     "embedding gradients are reduced dense, which gives the same sums", ""},
    {"disable_allgather", kBool, "false", kIgnored, kUnused, ""},
    {"dump_state", kBool, "false", kIgnored, "the start banner and --plan print it", ""},
    {"dataloader_drop_last", kBool, "false", kIgnored, kAlwaysFullRows, ""},
    {"wall_clock_breakdown", kBool, "false", kHonoured, "times of a step's parts", ""},
    {"memory_breakdown", kBool, "false", kHonoured, "memory after a step", ""},
    {"log_level", kText, "null", kIgnored, "step lines and warnings are always shown",
     "debug|info|warning|error|critical"},
    {"zero_force_ds_cpu_optimizer", kBool, "true", kIgnored, "there is one AdamW only", ""},
    {"graph_harvesting", kBool, "false", kIgnored, "it is for CUDA graphs", ""},
    {"vocabulary_size", kInt, "null", kIgnored, kModelGives, ""},
    {"sequence_parallel_size", kInt, "1", kHonoured, "ranks that share every row", ""},
    {"data_parallel_size", kInt, "null", kIgnored,
     "it follows from the number of ranks and the other parallel sizes", ""},
    {"seq_parallel_communication_data_type", kText, "fp32", kHonoured,
     "communication_data_type where ranks share rows", "fp16|bf16|fp32"},
    {"use_data_before_expert_parallelism", kBool, "false", kIgnored, kNoMoe, ""},
    {"allgather_size", kNumber, "500000000", kIgnored, "bucket sizes never change a result", ""},
    {"eigenvalue", kSwitch, "", kRefused, kAbsent, ""},
    {"progressive_layer_drop", kSwitch, "", kIgnored,
     "DeepSpeed offers theta to the model's forward, and no family here reads it", ""},
    {"quantize_training", kSwitch, "", kRefused, kAbsent, ""},
    {"compression_training", kSwitch, "", kRefused, kAbsent, ""},
    {"sparse_attention", kSwitch, "", kRefused, kAbsent, ""},
    {"weight_quantization", kSwitch, "", kRefused, kAbsent, ""},
    {"hybrid_engine", kSwitch, "", kRefused, kAbsent, ""},
    {"expert_parallel", kSwitch, "", kRefused, kAbsent, ""},
    // FMEngine's own
    {"lora", kBlock, "", kHonoured, "adapters, as --lora_r; only {} and null are off", ""},
    {"lora.r", kInt, "", kHonoured, "rank", ""},
    {"lora.lora_alpha", kNumber, "", kHonoured, "scale: lora_alpha / r", ""},
    {"lora.lora_dropout", kNumber, "", kHonoured, "of what the adapters read", ""},
    {"lr-decay-style|lr_decay_style", kAny, "", kHonoured, "where there is no scheduler block", ""},
    {"warmup|min_lr", kAny, "", kHonoured, "beside lr-decay-style", ""},
    {"offload_optimizer", kAny, "", kIgnored,
     "DeepSpeed reads it inside zero_optimization only, so it never had an effect here", ""},
};

constexpr std::string_view kOtherPrecision =
    "only fp32, bf16 and fp16 (\"bf16\": {\"enabled\": true}) are supported";
constexpr std::string_view kBuffers = "buffers, such as the tables of RoPE, are always fp32";
constexpr std::string_view kWideState =
    "master weights, gradients, their sums and moments are fp32";
constexpr std::string_view kBf16 = "parameters and hidden states are bf16, with an fp32 master";
constexpr std::string_view kFp16 =
    "parameters and hidden states are fp16, with an fp32 master and a loss scale";
constexpr std::string_view kScale = "the loss scale of fp16";
constexpr std::string_view kWideSums = "gradients are summed in fp32";
constexpr std::string_view kOneRule =
    "a loss or gradient that is not finite skips the step, in every precision";
constexpr std::string_view kAutocastOff = "torch_autocast is off";
constexpr std::string_view kFp32 = "fp32|float32|float|null";
constexpr std::string_view kDtypes = "fp32|float32|float|fp16|float16|half|bf16|bfloat16";

constexpr KeyRow kPrecisionRows[] = {
    {"fp16", kBlock, "", kHonoured, "a block", ""},
    {"fp16.enabled", kBool, "false", kElement, kFp16, ""},
    {"fp16.auto_cast", kBool, "false", kIgnored, "inputs are token ids", ""},
    {"fp16.loss_scale", kNumber, "0", kHonoured, kScale, ""},
    {"fp16.initial_scale_power", kInt, "16", kHonoured, kScale, ""},
    {"fp16.loss_scale_window", kInt, "1000", kHonoured, kScale, ""},
    {"fp16.hysteresis", kInt, "2", kHonoured, kScale, ""},
    {"fp16.consecutive_hysteresis", kBool, "false", kHonoured, kScale, ""},
    {"fp16.min_loss_scale", kInt, "1", kHonoured, kScale, ""},
    {"fp16.fp16_master_weights_and_grads", kBool, "false", kPrecision, kWideState, ""},
    {"bf16", kBlock, "", kHonoured, "a block", ""},
    {"bf16.enabled", kBool, "false", kElement, kBf16, ""},
    {"bf16.immediate_grad_update", kBool, "false", kIgnored, "gradients are always fp32", ""},
    {"bf16.check_grad_overflow", kBool, "true", kIgnored, kOneRule, ""},
    {"bf16.bf16_master_weights_and_grads", kBool, "false", kPrecision, kWideState, ""},
    {"bf16.bf16_optimizer_states", kBool, "false", kPrecision, kWideState, ""},
    {"bfloat16", kBlock, "", kHonoured, "old name of bf16", ""},
    {"bfloat16.enabled", kBool, "false", kElement, kBf16, ""},
    {"bfloat16.immediate_grad_update", kBool, "false", kIgnored, "gradients are always fp32", ""},
    {"bfloat16.check_grad_overflow", kBool, "true", kIgnored, kOneRule, ""},
    {"bfloat16.bf16_master_weights_and_grads", kBool, "false", kPrecision, kWideState, ""},
    {"bfloat16.bf16_optimizer_states", kBool, "false", kPrecision, kWideState, ""},
    {"precision", kText, kFp32, kElement, kBf16, kDtypes},
    {"communication_data_type", kText, kFp32, kHonoured,
     "of gradients between hosts, summed in fp32; left out: fp32", "fp16|bf16|fp32"},
    {"data_types", kOpen, "", kHonoured, "a block", ""},
    {"data_types.grad_accum_dtype", kText, kFp32, kIgnored, kWideSums, kDtypes},
    {"data_types.param_dtype", kText, kFp32, kElement, kBf16, kDtypes},
    {"data_types.buffer_dtype", kText, kFp32, kPrecision, kBuffers, kDtypes},
    {"torch_autocast", kOpen, "", kHonoured, "a block", ""},
    {"torch_autocast.enabled", kBool, "false", kPrecision, kOtherPrecision, ""},
    {"torch_autocast.dtype", kText, "", kIgnored, kAutocastOff,
     "torch.float16|fp16|float16|half|torch.bfloat16|bf16|bfloat16|torch.float32|fp32|float32|"
     "float|"
     "torch.int8|int8"},
    {"torch_autocast.lower_precision_safe_modules", kTexts, "", kIgnored, kAutocastOff, ""},
    {"amp", kSwitch, "", kPrecision, kOtherPrecision, ""},
};

constexpr std::string_view kBuckets = "bucket sizes never change a result; a unit is the bucket";
constexpr std::string_view kOverlap =
    "on unless false, between hosts; ranks of one host share memory and have nothing to overlap";
constexpr std::string_view kPrefetch =
    "elements gathered ahead between hosts under stage 3; left out: the largest unit";
constexpr std::string_view kOnCpu = "as device \"cpu\" of the block";
constexpr std::string_view kFolders = "folders on local drives, separated by commas";
constexpr std::string_view kPinned = "of host memory beside a device";
constexpr std::string_view kRoom = "a buffer holds the largest unit's slice";
constexpr std::string_view kSlices = "every unit is cut into one slice per data rank";
constexpr std::string_view kFrozen8 =
    "frozen weights stay as they are; zero_quantized_weights makes gathers of all weights smaller";
constexpr std::string_view kNoFeedback =
    "errors of zero_quantized_gradients are not fed back; remove it";
constexpr std::string_view kAsync =
    "ZenFlow's delayed updates change the training; not there, remove the block";
constexpr std::string_view kAnySize = "every checkpoint resumes at any ZeRO stage and size";
constexpr std::string_view kExport = "the whole Hugging Face folder is always written at the end";
constexpr std::string_view kExplicit = "parameters are gathered per unit by a fixed program";
constexpr std::string_view kDevice = "none|cpu|nvme";

constexpr KeyRow kZeroRows[] = {
    {"zero_optimization", kBlock, "", kHonoured, "a block, or true for stage 1", ""},
    {"zero_optimization.stage", kInt, "0", kHonoured, "0 to 3", ""},
    {"zero_optimization.contiguous_gradients", kBool, "true", kIgnored, kBuckets, ""},
    {"zero_optimization.reduce_scatter", kBool, "true", kIgnored, kBuckets, ""},
    {"zero_optimization.use_multi_rank_bucket_allreduce", kBool, "true", kIgnored, kBuckets, ""},
    {"zero_optimization.reduce_bucket_size", kCount, "500000000", kIgnored, kBuckets, ""},
    {"zero_optimization.allgather_partitions", kBool, "true", kIgnored, kUnused, ""},
    {"zero_optimization.allgather_bucket_size", kCount, "500000000", kIgnored, kBuckets, ""},
    {"zero_optimization.overlap_comm", kBool, "null", kHonoured, kOverlap, ""},
    {"zero_optimization.load_from_fp32_weights", kBool, "true", kIgnored,
     "weights on disk are fp32 masters", ""},
    {"zero_optimization.elastic_checkpoint", kBool, "false", kIgnored, kAnySize, ""},
    {"zero_optimization.sub_group_size", kCount, "1000000000", kIgnored, kBuckets, ""},
    {"zero_optimization.cpu_offload", kBool, "false|null", kHonoured, kOnCpu, ""},
    {"zero_optimization.cpu_offload_param", kBool, "false|null", kHonoured, kOnCpu, ""},
    {"zero_optimization.cpu_offload_use_pin_memory", kBool, "null", kIgnored, kUnused, ""},
    {"zero_optimization.stage3_prefetch_bucket_size", kCount, "", kHonoured, kPrefetch, ""},
    {"zero_optimization.prefetch_bucket_size", kCount, "", kHonoured, kPrefetch, ""},
    {"zero_optimization.stage3_param_persistence_threshold", kCount, "100000", kIgnored, kSlices,
     ""},
    {"zero_optimization.param_persistence_threshold", kCount, "100000", kIgnored, kSlices, ""},
    {"zero_optimization.stage3_model_persistence_threshold", kCount, "9223372036854775807",
     kIgnored, kSlices, ""},
    {"zero_optimization.model_persistence_threshold", kCount, "9223372036854775807", kIgnored,
     kSlices, ""},
    {"zero_optimization.stage3_max_live_parameters", kCount, "1000000000", kIgnored, kExplicit, ""},
    {"zero_optimization.max_live_parameters", kCount, "1000000000", kIgnored, kExplicit, ""},
    {"zero_optimization.stage3_max_reuse_distance", kCount, "1000000000", kIgnored, kExplicit, ""},
    {"zero_optimization.max_reuse_distance", kCount, "1000000000", kIgnored, kExplicit, ""},
    {"zero_optimization.stage3_gather_16bit_weights_on_model_save", kBool, "false", kIgnored,
     kExport, ""},
    {"zero_optimization.gather_16bit_weights_on_model_save", kBool, "false", kIgnored, kExport, ""},
    {"zero_optimization.stage3_gather_fp16_weights_on_model_save", kBool, "false", kIgnored,
     kExport, ""},
    {"zero_optimization.stage3_module_granularity_threshold", kInt, "0", kIgnored, kExplicit, ""},
    {"zero_optimization.module_granularity_threshold", kInt, "0", kIgnored, kExplicit, ""},
    {"zero_optimization.stage3_use_all_reduce_for_fetch_params", kBool, "false", kIgnored,
     kExplicit, ""},
    {"zero_optimization.use_all_reduce_for_fetch_params", kBool, "false", kIgnored, kExplicit, ""},
    {"zero_optimization.stage3_allgather_sequential", kBool, "false", kIgnored, kExplicit, ""},
    {"zero_optimization.allgather_sequential", kBool, "false", kIgnored, kExplicit, ""},
    {"zero_optimization.ignore_unused_parameters", kBool, "true", kIgnored,
     "every parameter of these models is used", ""},
    {"zero_optimization.legacy_stage1", kBool, "false", kRefused,
     "DeepSpeed removed it in 0.5.9; remove it", ""},
    {"zero_optimization.round_robin_gradients", kBool, "false", kIgnored, kSlices, ""},
    {"zero_optimization.zero_hpz_partition_size", kCount, "1", kHonoured,
     "data ranks of a host that keep gathered weights until the update", ""},
    {"zero_optimization.zero_quantized_weights", kBool, "false", kHonoured,
     "8 bits for gathered weights between hosts", ""},
    {"zero_optimization.zero_quantized_nontrainable_weights", kBool, "false", kRefused, kFrozen8,
     ""},
    {"zero_optimization.zero_quantized_gradients", kBool, "false", kHonoured,
     "4 bits for gradients between hosts", ""},
    {"zero_optimization.zeropp_loco_param", kAny, "null", kRefused, kNoFeedback, ""},
    {"zero_optimization.mics_shard_size", kInt, "-1", kIgnored, kSlices, ""},
    {"zero_optimization.mics_hierarchical_params_gather", kBool, "false", kIgnored, kSlices, ""},
    {"zero_optimization.memory_efficient_linear", kBool, "true", kIgnored, kExplicit, ""},
    {"zero_optimization.pipeline_loading_checkpoint", kBool, "false", kIgnored,
     "every rank reads only its own slices", ""},
    {"zero_optimization.override_module_apply", kBool, "true", kIgnored, kExplicit, ""},
    {"zero_optimization.log_trace_cache_warnings", kBool, "false", kIgnored, kExplicit, ""},
    {"zero_optimization.enable_sanity_checks", kBool, "false", kIgnored,
     "the program of all ranks is proved before step 1", ""},
    {"zero_optimization.save_muon_momentum_buffer_in_memory", kBool, "false", kIgnored,
     "every state is in memory", ""},
    {"zero_optimization.leaf_module", kBlock, "", kIgnored, kExplicit, ""},
    {"zero_optimization.leaf_module.classes|names|name_suffixes", kTexts, "", kIgnored, kExplicit,
     ""},
    {"zero_optimization.offload_param", kBlock, "", kHonoured, "a block", ""},
    {"zero_optimization.offload_param.device", kText, "none", kHonoured,
     "cpu: host memory beside a device; nvme; both with stage 3", kDevice},
    {"zero_optimization.offload_param.nvme_path", kText, "null", kHonoured, kFolders, ""},
    {"zero_optimization.offload_param.buffer_count", kCount, "5", kHonoured,
     "units whose parameters are in memory at once", ""},
    {"zero_optimization.offload_param.buffer_size", kCount, "100000000", kIgnored, kRoom, ""},
    {"zero_optimization.offload_param.max_in_cpu", kCount, "1000000000", kHonoured,
     "elements that stay in memory", ""},
    {"zero_optimization.offload_param.pin_memory", kBool, "true", kHonoured, kPinned, ""},
    {"zero_optimization.offload_optimizer", kBlock, "", kHonoured, "a block", ""},
    {"zero_optimization.offload_optimizer.device", kText, "none", kHonoured,
     "nvme: with stages 1 to 3; cpu: host memory beside a device", kDevice},
    {"zero_optimization.offload_optimizer.nvme_path", kText, "null", kHonoured, kFolders, ""},
    {"zero_optimization.offload_optimizer.buffer_count", kCount, "4", kHonoured,
     "units whose state is in memory at once", ""},
    {"zero_optimization.offload_optimizer.pin_memory", kBool, "true", kHonoured, kPinned, ""},
    {"zero_optimization.offload_optimizer.pipeline_read", kBool, "true", kHonoured,
     "on unless false: units are read ahead of their update", ""},
    {"zero_optimization.offload_optimizer.pipeline_write", kBool, "true", kHonoured,
     "on unless false: units are written behind their update", ""},
    {"zero_optimization.offload_optimizer.fast_init", kBool, "false", kIgnored,
     "the first state goes to its tier unit by unit in any case", ""},
    {"zero_optimization.offload_optimizer.super_offload", kBool, "false", kIgnored,
     "a unit is updated on the CPU as soon as the result cannot be undone, without a switch", ""},
    {"zero_optimization.offload_optimizer.ratio", kShare, "1", kHonoured,
     "of the state that leaves the device", ""},
    {"zero_optimization.offload_optimizer.cpuadam_cores_perc", kShare, "0.8", kIgnored,
     "--threads says how many threads a rank has", ""},
    {"zero_optimization.zenflow", kBlock, "", kRefused, kAsync, ""},
    {"zero_optimization.zenflow.topk_ratio|select_strategy|select_interval|update_interval|"
     "overlap_step|offload|auto_ratio|full_warm_up_rounds|pt_reserved_cores_perc|"
     "steps_per_epoch",
     kAny, "", kIgnored, kAsync, ""},
};

constexpr std::string_view kOneLoop = "it chooses among implementations of the same update";
constexpr std::string_view kAdam = "as DeepSpeed's FusedAdam";
constexpr std::string_view kSchedule = "as deepspeed/runtime/lr_schedules.py";

constexpr KeyRow kOptimizerRows[] = {
    {"optimizer", kOpen, "", kHonoured, "a block", ""},
    {"optimizer.type", kText, "", kHonoured,
     "Adam and AdamW (decoupled decay), Lion, Adagrad, Lamb, Muon, SGD", ""},
    {"optimizer.legacy_fusion", kBool, "false", kIgnored, kOneLoop, ""},
    {"optimizer.params", kOpen, "", kHonoured, "a block", ""},
    {"optimizer.params.lr", kNumber, "", kHonoured, "the learning rate", ""},
    {"optimizer.params.betas", kList, "", kHonoured, kAdam, ""},
    {"optimizer.params.eps", kNumber, "", kHonoured, kAdam, ""},
    {"optimizer.params.weight_decay", kNumber, "", kHonoured, "on every parameter", ""},
    {"optimizer.params.bias_correction", kBool, "true", kHonoured, kAdam, ""},
    {"optimizer.params.adam_w_mode", kBool, "true", kHonoured, "false: L2, for type Adam", ""},
    {"optimizer.params.torch_adam", kBool, "false|null", kHonoured,
     "torch's default decay, 0.01 for AdamW", ""},
    {"optimizer.params.momentum", kNumber, "", kHonoured, "SGD, Muon", ""},
    {"optimizer.params.dampening", kNumber, "0", kHonoured, "SGD", ""},
    {"optimizer.params.nesterov", kBool, "false|null", kHonoured, "SGD", ""},
    {"optimizer.params.lr_decay", kNumber, "0", kHonoured, "Adagrad", ""},
    {"optimizer.params.initial_accumulator_value", kNumber, "0", kHonoured, "Adagrad: only 0", ""},
    {"optimizer.params.eps_inside_sqrt", kBool, "false", kHonoured, "Lamb", ""},
    {"optimizer.params.max_coeff", kNumber, "10", kHonoured, "Lamb", ""},
    {"optimizer.params.min_coeff", kNumber, "0.01", kHonoured, "Lamb", ""},
    {"optimizer.params.muon_lr|adam_lr", kRate, "", kHonoured, "Muon: instead of lr", ""},
    {"optimizer.params.ns_method", kText, "gram", kHonoured,
     "Muon: both are one iteration, in fp32", ""},
    {"optimizer.params.amsgrad", kBool, "false|null", kRefused,
     "FusedAdam does not support the AMSGrad variant, nor do we; remove it", ""},
    {"optimizer.params.maximize", kBool, "false|null", kRefused, "a loss is minimised; remove it",
     ""},
    {"optimizer.params.max_grad_norm", kAny, "null", kRefused,
     "'max_grad_norm' is not supported as an optimizer parameter; set the top-level key "
     "\"gradient_clipping\" instead",
     ""},
    {"optimizer.params.fp32_optimizer_states", kBool, "true", kRefused,
     "moments are always fp32; remove it", ""},
    {"optimizer.params.set_grad_none", kBool, "true|null", kIgnored, kOneLoop, ""},
    {"optimizer.params.foreach", kAny, "null", kIgnored, kOneLoop, ""},
    {"optimizer.params.fused", kAny, "null", kIgnored, kOneLoop, ""},
    {"optimizer.params.capturable", kBool, "false|null", kIgnored, kOneLoop, ""},
    {"optimizer.params.differentiable", kBool, "false|null", kIgnored, kOneLoop, ""},
    {"scheduler", kOpen, "", kHonoured, "a block", ""},
    {"scheduler.type", kText, "", kHonoured, "DeepSpeed's five", ""},
    {"scheduler.params", kOpen, "", kHonoured, "a block", ""},
    {"scheduler.params.warmup_min_lr", kRate, "0", kHonoured, kSchedule, ""},
    {"scheduler.params.warmup_max_lr", kRate, "null", kHonoured, kSchedule, ""},
    {"scheduler.params.warmup_num_steps", kInt, "1000", kHonoured, kSchedule, ""},
    {"scheduler.params.warmup_type", kText, "log|null", kHonoured, "log or linear", ""},
    {"scheduler.params.total_num_steps", kInt, "", kHonoured, kSchedule, ""},
    {"scheduler.params.warmup_min_ratio", kNumber, "0", kHonoured, kSchedule, ""},
    {"scheduler.params.cos_min_ratio", kNumber, "0.0001", kHonoured, kSchedule, ""},
    {"scheduler.params.last_batch_iteration", kInt, "-1", kRefused,
     "the position of the schedule comes from the checkpoint (--resume); remove it", ""},
    {"scheduler.params.lr_range_test_min_lr", kNumber, "", kHonoured, kSchedule, ""},
    {"scheduler.params.lr_range_test_step_size", kInt, "", kHonoured, kSchedule, ""},
    {"scheduler.params.lr_range_test_step_rate", kNumber, "", kHonoured, kSchedule, ""},
    {"scheduler.params.lr_range_test_staircase", kBool, "", kHonoured, kSchedule, ""},
    {"scheduler.params.cycle_min_lr", kNumber, "", kHonoured, kSchedule, ""},
    {"scheduler.params.cycle_max_lr", kNumber, "", kHonoured, kSchedule, ""},
    {"scheduler.params.decay_lr_rate", kNumber, "", kHonoured, kSchedule, ""},
    {"scheduler.params.cycle_first_step_size", kInt, "", kHonoured, kSchedule, ""},
    {"scheduler.params.cycle_second_step_size", kInt, "", kHonoured, kSchedule, ""},
    {"scheduler.params.cycle_first_stair_count", kInt, "", kHonoured, kSchedule, ""},
    {"scheduler.params.cycle_second_stair_count", kInt, "", kHonoured, kSchedule, ""},
    {"scheduler.params.decay_step_size", kInt, "", kHonoured, kSchedule, ""},
    {"scheduler.params.cycle_momentum", kBool, "", kHonoured, kSchedule, ""},
    {"scheduler.params.cycle_min_mom", kNumber, "", kHonoured, kSchedule, ""},
    {"scheduler.params.cycle_max_mom", kNumber, "", kHonoured, kSchedule, ""},
    {"scheduler.params.decay_mom_rate", kNumber, "", kHonoured, kSchedule, ""},
};

constexpr std::string_view kWhole = "recomputation keeps one input per block, whole, in memory";
constexpr std::string_view kTensors = "tensor-parallel ranks, as --model_parallel_size";
constexpr std::string_view kNoTensors = "the family says what is cut, by heads and columns";
constexpr std::string_view kDiskThreads = "threads per drive where io_uring is not allowed";
constexpr std::string_view kOneQueue = "requests go into one queue, which is kept full";
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
    "any number of ranks takes the same samples where train_batch_size and "
    "train_micro_batch_size_per_gpu are set; set them and disable it";
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
    {"aio", kOpen, "", kHonoured, "a block", ""},
    {"aio.block_size", kInt, "1048576", kHonoured, "bytes of a request to the disk", ""},
    {"aio.queue_depth", kInt, "8", kHonoured, "requests under way at once, per drive", ""},
    {"aio.intra_op_parallelism", kInt, "1", kHonoured, kDiskThreads, ""},
    {"aio.thread_count", kInt, "null", kHonoured, kDiskThreads, ""},
    {"aio.single_submit", kBool, "false", kIgnored, kOneQueue, ""},
    {"aio.overlap_events", kBool, "true", kIgnored, kOneQueue, ""},
    {"aio.use_gds", kBool, "false", kRefused,
     "a GPU's memory reaches the disk through the host's; remove it", ""},
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

std::vector<KeyRow> join_parts() {
  std::vector<KeyRow> rows;
  for (const std::span<const KeyRow> part :
       {std::span<const KeyRow>(kTopRows), std::span<const KeyRow>(kOptimizerRows),
        std::span<const KeyRow>(kPrecisionRows), std::span<const KeyRow>(kZeroRows),
        std::span<const KeyRow>(kMonitors), std::span<const KeyRow>(kRuntime),
        std::span<const KeyRow>(kTuning)}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace

const std::vector<KeyRow>& ds_config_keys() {
  static const std::vector<KeyRow> kRows = join_parts();
  return kRows;
}

std::span<const DeprecatedKey> deprecated_keys() { return kDeprecated; }

const KeyRow* find_key(std::string_view path) {
  const auto [parent, name] = split_path(path);
  for (const KeyRow& row : ds_config_keys()) {
    const auto [block, names] = split_path(row.path);
    if (block == parent && holds(names, name)) return &row;
  }
  return nullptr;
}

std::vector<std::string> keys_below(std::string_view block) {
  std::vector<std::string> names;
  for (const KeyRow& row : ds_config_keys()) {
    const auto [parent, these] = split_path(row.path);
    if (parent != block) continue;
    for (const std::string& name : core::split(these, '|')) names.push_back(name);
  }
  return names;
}

std::optional<std::string> block_of(std::string_view name) {
  std::optional<std::string> found;
  for (const KeyRow& row : ds_config_keys()) {
    const auto [parent, names] = split_path(row.path);
    if (!holds(names, name)) continue;
    if (found) return std::nullopt;
    found = parent;
  }
  return found;
}

std::string path_of_flag(std::string_view name) {
  std::string found;
  for (const KeyRow& row : ds_config_keys()) {
    const auto [parent, names] = split_path(row.path);
    if (!holds(names, name)) continue;
    std::string path = core::concat(parent, parent.empty() ? "" : ".", name);
    if (row.verdict == Verdict::kHonoured) return path;
    if (found.empty()) found = path;
  }
  return found;
}

}  // namespace fm::cli
