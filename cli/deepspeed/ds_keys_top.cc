// Top-level scalars of DeepSpeed's JSON, FMEngine's and our own.
#include "cli/deepspeed/ds_config_keys.h"

namespace fm::cli {
namespace {

using enum KeyType;
using enum Verdict;

constexpr std::string_view kRounding =
    "it moves a division before or after a sum; here sums are fixed trees, divided once";
constexpr std::string_view kUnusedThere = "DeepSpeed itself parses it and never uses it";
constexpr std::string_view kNoMoe = "there are no experts";
constexpr std::string_view kModelGives = "the model's config.json gives it";
constexpr std::string_view kAlwaysFullRows = "the data is an endless order of whole batches";
constexpr std::string_view kAbsent = "this technique is not part of fmengine; remove the block";

constexpr KeyRow kRows[] = {
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
    {"disable_allgather", kBool, "false", kIgnored, kUnusedThere, ""},
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
    {"seq_parallel_communication_data_type", kText, "fp32", kIgnored,
     "tokens travel in the model's type, gradients in fp32", "fp16|bf16|fp32"},
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

}  // namespace

std::span<const KeyRow> top_level_keys() { return kRows; }

}  // namespace fm::cli
