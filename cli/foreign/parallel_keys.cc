// Names of ranks, schedules and sizes in Megatron-LM, torchtitan, nanotron and picotron.
#include "cli/foreign/foreign_keys.h"

namespace fm::cli {
namespace {

constexpr std::string_view kTensor = "use --model_parallel_size";
constexpr std::string_view kPipe = "use --pipe_parallel_size";
constexpr std::string_view kSequence = "use --sequence_parallel_size";
constexpr std::string_view kData =
    "data ranks are those that pipe, tensor and sequence ranks leave";
constexpr std::string_view kChunks = "use --virtual_stages, the model chunks of a pipe rank";
constexpr std::string_view kRecompute = "use --gradient_checkpointing";
constexpr std::string_view kZero = "set zero_optimization.stage in --deepspeed_config FILE";

constexpr ForeignKey kKeys[] = {
    {"tensor_model_parallel_size tensor_parallel_size tensor_parallel_degree tp_size tp", "",
     kTensor},
    {"pipeline_model_parallel_size pipeline_parallel_size pipeline_parallel_degree pp_size pp", "",
     kPipe},
    {"context_parallel_size context_parallel_degree ulysses_sequence_parallel_size cp_size cp", "",
     kSequence},
    {"cp_comm_type", "", "use --sequence_parallel"},
    {"data_parallel_size data_parallel_replicate_degree data_parallel_shard_degree dp_size dp", "",
     kData},
    {"pipeline_parallel_schedule pp_engine", "", "use --schedule"},
    {"num_virtual_stages_per_pipeline_rank num_layers_per_virtual_pipeline_stage "
     "virtual_pipeline_model_parallel_size",
     "", kChunks},
    {"pipeline_model_parallel_layout", "", "use --partition_method"},
    {"global_batch_size", "", "set train_batch_size in --deepspeed_config FILE"},
    {"recompute_activations recompute_granularity", "", kRecompute},
    {"recompute_num_layers", "",
     "set pipeline.activation_checkpoint_interval in --deepspeed_config FILE"},
    {"use_distributed_optimizer zero_stage", "", kZero},
    {"offload_optimizer_device optimizer_cpu_offload cpu_offload", "",
     "use --offload_optimizer cpu, or nvme"},
    {"offload_param_device fsdp_offload_params enable_cpu_offload", "",
     "use --offload_param cpu, or nvme"},
    {"offload", "", "use --offload_optimizer and --offload_param, each with cpu or nvme"},
    {"offload_optimizer_nvme_path offload_param_nvme_path", "", "use --nvme_path"},
    {"optimizer_offload_fraction", "",
     "set zero_optimization.offload_optimizer.ratio in --deepspeed_config FILE"},
};

}  // namespace

std::span<const ForeignKey> parallel_keys() { return kKeys; }

}  // namespace fm::cli
