// zero_optimization with its offload blocks and zenflow.
#include "cli/deepspeed/ds_config_keys.h"

namespace fm::cli {
namespace {

using enum KeyType;
using enum Verdict;

constexpr std::string_view kBuckets = "bucket sizes never change a result; a unit is the bucket";
constexpr std::string_view kOverlap =
    "on unless false, between hosts; ranks of one host share memory and have nothing to overlap";
constexpr std::string_view kPrefetch =
    "elements gathered ahead between hosts under stage 3; left out: the largest unit";
constexpr std::string_view kOffload = "offload to NVMe comes later; use \"cpu\" or \"none\"";
constexpr std::string_view kOnCpu = "on CPUs the state is in host memory already";
constexpr std::string_view kOffloadOff = "nothing is offloaded";
constexpr std::string_view kSlices = "every unit is cut into one slice per data rank";
constexpr std::string_view kUnused = "DeepSpeed itself parses it and never uses it";
constexpr std::string_view kNarrow = "quantised communication is not there; remove it";
constexpr std::string_view kAsync =
    "ZenFlow's delayed updates change the training; not there, remove the block";
constexpr std::string_view kAnySize = "every checkpoint resumes at any ZeRO stage and size";
constexpr std::string_view kExport = "the whole Hugging Face folder is always written at the end";
constexpr std::string_view kExplicit = "parameters are gathered per unit by a fixed program";
constexpr std::string_view kDevice = "none|cpu|nvme";

constexpr KeyRow kRows[] = {
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
    {"zero_optimization.zero_hpz_partition_size", kCount, "1", kIgnored, kSlices, ""},
    {"zero_optimization.zero_quantized_weights", kBool, "false", kRefused, kNarrow, ""},
    {"zero_optimization.zero_quantized_nontrainable_weights", kBool, "false", kRefused, kNarrow,
     ""},
    {"zero_optimization.zero_quantized_gradients", kBool, "false", kRefused, kNarrow, ""},
    {"zero_optimization.zeropp_loco_param", kAny, "null", kRefused, kNarrow, ""},
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
    {"zero_optimization.offload_param.device", kText, "none|cpu", kRefused, kOffload, kDevice},
    {"zero_optimization.offload_param.nvme_path", kText, "", kIgnored, kOffloadOff, ""},
    {"zero_optimization.offload_param.buffer_count|buffer_size|max_in_cpu", kCount, "", kIgnored,
     kOffloadOff, ""},
    {"zero_optimization.offload_param.pin_memory", kBool, "", kIgnored, kOffloadOff, ""},
    {"zero_optimization.offload_optimizer", kBlock, "", kHonoured, "a block", ""},
    {"zero_optimization.offload_optimizer.device", kText, "none|cpu", kRefused, kOffload, kDevice},
    {"zero_optimization.offload_optimizer.nvme_path", kText, "", kIgnored, kOffloadOff, ""},
    {"zero_optimization.offload_optimizer.buffer_count", kCount, "", kIgnored, kOffloadOff, ""},
    {"zero_optimization.offload_optimizer.pin_memory|pipeline_read|pipeline_write|fast_init|"
     "super_offload",
     kBool, "", kIgnored, kOffloadOff, ""},
    {"zero_optimization.offload_optimizer.ratio|cpuadam_cores_perc", kShare, "", kIgnored,
     kOffloadOff, ""},
    {"zero_optimization.zenflow", kBlock, "", kRefused, kAsync, ""},
    {"zero_optimization.zenflow.topk_ratio|select_strategy|select_interval|update_interval|"
     "overlap_step|offload|auto_ratio|full_warm_up_rounds|pt_reserved_cores_perc|"
     "steps_per_epoch",
     kAny, "", kIgnored, kAsync, ""},
};

}  // namespace

std::span<const KeyRow> zero_keys() { return kRows; }

}  // namespace fm::cli
