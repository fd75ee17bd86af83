#include "cli/foreign_flags.h"

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

struct ForeignFlag {
  std::string_view name;
  std::string_view advice;
};

constexpr ForeignFlag kForeign[] = {
    {"tensor_model_parallel_size", kTensor},
    {"tensor_parallel_size", kTensor},
    {"tensor_parallel_degree", kTensor},
    {"tp_size", kTensor},
    {"tp", kTensor},
    {"pipeline_model_parallel_size", kPipe},
    {"pipeline_parallel_size", kPipe},
    {"pipeline_parallel_degree", kPipe},
    {"pp_size", kPipe},
    {"pp", kPipe},
    {"context_parallel_size", kSequence},
    {"context_parallel_degree", kSequence},
    {"ulysses_sequence_parallel_size", kSequence},
    {"cp_size", kSequence},
    {"cp", kSequence},
    {"cp_comm_type", "use --sequence_parallel"},
    {"data_parallel_size", kData},
    {"data_parallel_replicate_degree", kData},
    {"data_parallel_shard_degree", kData},
    {"dp_size", kData},
    {"dp", kData},
    {"pipeline_parallel_schedule", "use --schedule"},
    {"pp_engine", "use --schedule"},
    {"num_virtual_stages_per_pipeline_rank", kChunks},
    {"num_layers_per_virtual_pipeline_stage", kChunks},
    {"virtual_pipeline_model_parallel_size", kChunks},
    {"pipeline_model_parallel_layout", "use --partition_method"},
    {"micro_batch_size", "use --per_device_train_batch_size"},
    {"global_batch_size", "set train_batch_size in --deepspeed_config FILE"},
    {"recompute_activations", kRecompute},
    {"recompute_granularity", kRecompute},
    {"recompute_num_layers",
     "set pipeline.activation_checkpoint_interval in --deepspeed_config FILE"},
    {"use_distributed_optimizer", kZero},
    {"zero_stage", kZero},
};

}  // namespace

std::string advice_on_foreign_flag(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot != std::string_view::npos) name.remove_prefix(dot + 1);
  for (const ForeignFlag& each : kForeign) {
    if (each.name == name) return std::string(each.advice);
  }
  return "";
}

}  // namespace fm::cli
