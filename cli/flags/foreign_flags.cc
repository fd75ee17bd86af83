#include "cli/flags/foreign_flags.h"

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

constexpr std::string_view kBatch = "use --per_device_train_batch_size";
constexpr std::string_view kEpochs = "use --num_train_epochs";
constexpr std::string_view kLength = "use --max_seq_len";
constexpr std::string_view kModel = "use --init_ckpt";
constexpr std::string_view kPath = "use --data_path";
constexpr std::string_view kShare = "use --validation_split, a share of 1";
constexpr std::string_view kType = "use --precision";
constexpr std::string_view kPacking = "use --packing best_fit";
constexpr std::string_view kLauncher = "start as many ranks, with mpirun -np N or torchrun";
constexpr std::string_view kMicroBatch =
    "an evaluation takes the micro-batches of the training, and its loss does not depend on them";
constexpr std::string_view kQuantized = "quantized weights are not there yet";
constexpr std::string_view kDevice = "it runs on CPUs only";

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
    {"batch_size", kBatch},
    {"epochs", kEpochs},
    {"num_epochs", kEpochs},
    {"lr", "use --learning_rate"},
    {"block_size", kLength},
    {"cutoff_len", kLength},
    {"max_length", kLength},
    {"max_seq_length", kLength},
    {"model_max_length", kLength},
    {"seq_length", kLength},
    {"sequence_len", kLength},
    {"model", kModel},
    {"model_name", kModel},
    {"dataset", kPath},
    {"dataset_path", kPath},
    {"dataset_name", "download it as JSONL, and name the file with --data_path"},
    {"dataset_config_name", "download that part as JSONL, and name the file with --data_path"},
    {"validation_split_percentage", kShare},
    {"val_set_size", kShare},
    {"torch_dtype", kType},
    {"dtype", kType},
    {"lora_rank", "use --lora_r"},
    {"sample_packing", kPacking},
    {"packing_strategy", kPacking},
    {"num_gpus", kLauncher},
    {"nproc_per_node", kLauncher},
    {"eval_batch_size", kMicroBatch},
    {"load_in_4bit", kQuantized},
    {"load_in_8bit", kQuantized},
};

constexpr std::string_view kNoWorkers = "data is read without worker processes";
constexpr std::string_view kNoTorch = "torch does not run here";
constexpr std::string_view kNoHub = "nothing is uploaded; hf upload does that";

constexpr SilentFlag kSilent[] = {
    {"do_train", "true", "it trains; --plan starts nothing"},
    {"do_eval", "", "evaluation runs where there is --eval_data_path or a split"},
    {"do_predict", "false", "fmengine-generate continues texts"},
    {"overwrite_output_dir", "", "a run resumes where its folder has checkpoints; --resume never"},
    {"optim", "adamw_torch,adamw_torch_fused,adamw_hf,adamw_apex_fused",
     "without an optimizer block in --deepspeed_config FILE it is AdamW"},
    {"logging_strategy", "steps", "--log_steps says how many"},
    {"logging_first_step", "", "the first step is always logged"},
    {"logging_nan_inf_filter", "", "losses are logged as they are"},
    {"log_level", "", "there is one level"},
    {"disable_tqdm", "", "a bar is drawn in terminals only"},
    {"run_name", "", "a run is known by its --output_dir"},
    {"per_device_eval_batch_size", "", kMicroBatch},
    {"eval_accumulation_steps", "", kMicroBatch},
    {"dataloader_num_workers", "", kNoWorkers},
    {"dataloader_pin_memory", "", kNoWorkers},
    {"dataloader_persistent_workers", "", kNoWorkers},
    {"dataloader_prefetch_factor", "", kNoWorkers},
    {"preprocessing_num_workers", "", "text is tokenized by all --threads"},
    {"dataset_num_proc", "", "text is tokenized by all --threads"},
    {"dataloader_drop_last", "false", "every row is trained"},
    {"group_by_length", "false", "rows are shuffled; --packing best_fit wastes less"},
    {"remove_unused_columns", "", "fields that nothing reads are stepped over"},
    {"overwrite_cache", "", "text is tokenized again where it has changed"},
    {"ddp_timeout", "", "--timeout_s limits each wait for another rank"},
    {"ddp_backend", "", "ranks of a host share memory, others send messages"},
    {"ddp_find_unused_parameters", "", kNoTorch},
    {"ddp_bucket_cap_mb", "", kNoTorch},
    {"tf32", "", "TF32 is a type of GPUs"},
    {"use_cpu", "true", kDevice},
    {"no_cuda", "true", kDevice},
    {"torch_compile", "", kNoTorch},
    {"gradient_checkpointing_kwargs", "", kNoTorch},
    {"low_cpu_mem_usage", "", "weights are read piece by piece"},
    {"use_fast_tokenizer", "", "tokenizers of Hugging Face are read by fmengine's own code"},
    {"trust_remote_code", "", "no code of a model is run"},
    {"save_safetensors", "true", "weights are written as safetensors"},
    {"label_smoothing_factor", "0,0.0", "labels are not smoothed"},
    {"auto_find_batch_size", "false", "--plan says what fits"},
    {"push_to_hub", "false", kNoHub},
};

}  // namespace

std::span<const SilentFlag> silent_flags() { return kSilent; }

std::string advice_on_foreign_flag(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot != std::string_view::npos) name.remove_prefix(dot + 1);
  for (const ForeignFlag& each : kForeign) {
    if (each.name == name) return std::string(each.advice);
  }
  return "";
}

}  // namespace fm::cli
