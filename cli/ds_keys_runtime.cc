// Blocks about how a step runs and what lies on disk.
#include "cli/ds_config_keys.h"

namespace fm::cli {
namespace {

using enum KeyType;
using enum Verdict;

constexpr std::string_view kWhole = "recomputation keeps one input per block, whole, in memory";
constexpr std::string_view kTensors = "tensor parallelism comes later; set it to 1";
constexpr std::string_view kNoTensors = "there is no tensor parallelism yet";
constexpr std::string_view kUnused = "DeepSpeed itself parses it and never uses it";
constexpr std::string_view kNvme = "nothing is written to NVMe during a step";
constexpr std::string_view kOurSaves =
    "checkpoints are written crash-safe, by name and shape, every rank its own slices";
constexpr std::string_view kService = "checkpoints are written to output_dir by fmengine itself";
constexpr std::string_view kCompiled = "the program is compiled ahead of time";
constexpr std::string_view kPlainWire = "hidden states travel whole between pipe ranks";

constexpr KeyRow kRows[] = {
    {"activation_checkpointing", kOpen, "", kHonoured,
     "its presence turns recomputation on, as FMEngine reads it", ""},
    {"activation_checkpointing.partition_activations", kBool, "false", kIgnored, kWhole, ""},
    {"activation_checkpointing.number_checkpoints", kInt, "null", kIgnored, kWhole, ""},
    {"activation_checkpointing.contiguous_memory_optimization", kBool, "false", kIgnored, kWhole,
     ""},
    {"activation_checkpointing.cpu_checkpointing", kBool, "false", kIgnored, kWhole, ""},
    {"activation_checkpointing.synchronize_checkpoint_boundary", kBool, "false", kIgnored, kWhole,
     ""},
    {"activation_checkpointing.profile", kBool, "false", kIgnored,
     "metrics.jsonl always holds phases", ""},
    {"aio", kOpen, "", kIgnored, kNvme, ""},
    {"aio.block_size", kInt, "1048576", kIgnored, kNvme, ""},
    {"aio.queue_depth", kInt, "8", kIgnored, kNvme, ""},
    {"aio.intra_op_parallelism", kInt, "1", kIgnored, kNvme, ""},
    {"aio.thread_count", kInt, "1", kIgnored, kNvme, ""},
    {"aio.single_submit", kBool, "false", kIgnored, kNvme, ""},
    {"aio.overlap_events", kBool, "true", kIgnored, kNvme, ""},
    {"aio.use_gds", kBool, "false", kIgnored, kNvme, ""},
    {"pipeline", kOpen, "", kHonoured, "a block", ""},
    {"pipeline.stages", kAny, "auto", kIgnored, kUnused, ""},
    {"pipeline.partition", kText, "best", kIgnored, kUnused, ""},
    {"pipeline.seed_layers", kBool, "false", kIgnored, kUnused, ""},
    {"pipeline.activation_checkpoint_interval", kInt, "0", kHonoured,
     "more than 0 turns recomputation on, per block", ""},
    {"pipeline.pipe_partitioned", kBool, "true", kIgnored, kPlainWire, ""},
    {"pipeline.grad_partitioned", kBool, "true", kIgnored, kPlainWire, ""},
    {"pipeline.use_reentrant", kBool, "true", kIgnored, "there is no autograd", ""},
    {"checkpoint", kOpen, "", kIgnored, kOurSaves, ""},
    {"checkpoint.tag_validation", kText, "warn", kIgnored, kOurSaves, "ignore|warn|fail"},
    {"checkpoint.load_universal", kBool, "false", kIgnored,
     "every checkpoint resumes at any ZeRO stage and size; see --resume", ""},
    {"checkpoint.use_node_local_storage", kBool, "false", kIgnored, kOurSaves, ""},
    {"checkpoint.parallel_write", kOpen, "", kIgnored, kOurSaves, ""},
    {"checkpoint.parallel_write.pipeline_stage", kBool, "false", kIgnored, kOurSaves, ""},
    {"checkpoint.checkpoint_serialization", kBool, "true", kIgnored, kOurSaves, ""},
    {"checkpoint.writer", kOpen, "", kIgnored, kOurSaves, ""},
    {"checkpoint.writer.type", kText, "fast", kIgnored, kOurSaves, "mock|python|fast"},
    {"checkpoint.writer.io_buffer_size", kInt, "67108864", kIgnored, kOurSaves, ""},
    {"checkpoint.writer.io_buffer_double", kBool, "true", kIgnored, kOurSaves, ""},
    {"checkpoint.writer.show_statistics", kBool, "false", kIgnored, kOurSaves, ""},
    {"checkpoint.writer.data_parallel", kText, "null", kIgnored, kOurSaves,
     "replica|socket|machine"},
    {"checkpoint.writer.decoupled", kBool, "false", kIgnored, kOurSaves, ""},
    {"checkpoint.writer.io_multiplier", kInt, "1", kIgnored, kOurSaves, ""},
    {"tensor_parallel", kBlock, "", kHonoured, "a block", ""},
    {"tensor_parallel.autotp_size", kInt, "0|1", kRefused, kTensors, ""},
    {"tensor_parallel.tp_overlap_comm", kBool, "false", kIgnored, kNoTensors, ""},
    {"tensor_parallel.tp", kOpen, "", kHonoured, "a block", ""},
    {"tensor_parallel.tp.tp_size", kInt, "1", kRefused, kTensors, ""},
    {"tensor_parallel.tp.tp_grain_size", kInt, "1", kIgnored, kNoTensors, ""},
    {"tensor_parallel.dtype", kAny, "", kIgnored, kNoTensors, ""},
    {"tensor_parallel.partition_config", kOpen, "", kIgnored, kNoTensors, ""},
    {"tensor_parallel.partition_config.use_default_specs", kBool, "", kIgnored, kNoTensors, ""},
    {"tensor_parallel.partition_config.layer_specs", kList, "", kIgnored, kNoTensors, ""},
    {"tensor_parallel.preset_model", kText, "null", kIgnored, kNoTensors,
     "llama|bloom|chatglm|mixtral|deepseek_v2|qwen2|phi3"},
    {"nebula", kOpen, "", kIgnored, kService, ""},
    {"nebula.enabled", kBool, "false", kIgnored, kService, ""},
    {"nebula.persistent_storage_path", kText, "null", kIgnored, kService, ""},
    {"nebula.persistent_time_interval", kInt, "100", kIgnored, kService, ""},
    {"nebula.num_of_version_in_retention", kInt, "2", kIgnored, kService, ""},
    {"nebula.enable_nebula_load", kBool, "true", kIgnored, kService, ""},
    {"nebula.nebula_load_path", kText, "null", kIgnored, kService, ""},
    {"datastates_ckpt", kAny, "", kIgnored, kService, ""},
    {"compile", kOpen, "", kIgnored, kCompiled, ""},
    {"compile.deepcompile", kBool, "false", kIgnored, kCompiled, ""},
    {"compile.free_activation", kBool, "", kIgnored, kCompiled, ""},
    {"compile.free_activation_threshold", kInt, "10485760", kIgnored, kCompiled, ""},
    {"compile.offload_activation", kBool, "false", kIgnored, kCompiled, ""},
    {"compile.offload_opt_states", kBool, "false", kIgnored, kCompiled, ""},
    {"compile.double_buffer", kBool, "true", kIgnored, kCompiled, ""},
    {"compile.passes", kAny, "", kIgnored, kCompiled, ""},
};

}  // namespace

std::span<const KeyRow> runtime_keys() { return kRows; }

}  // namespace fm::cli
