// Precision: everything that would make a number narrower than fp32. What asks for bf16 or fp16
// is judged in ds_precision.cc.
#include "cli/deepspeed/ds_config_keys.h"

namespace fm::cli {
namespace {

using enum KeyType;
using enum Verdict;

constexpr std::string_view kNarrow =
    "only fp32, bf16 and fp16 (\"bf16\": {\"enabled\": true}) are supported";
constexpr std::string_view kBuffers = "buffers, such as the tables of RoPE, are always fp32";
constexpr std::string_view kWideState =
    "master weights, gradients, their sums and moments are fp32";
constexpr std::string_view kBf16 = "parameters and hidden states are bf16, with an fp32 master";
constexpr std::string_view kFp16 =
    "parameters and hidden states are fp16, with an fp32 master and a loss scale";
constexpr std::string_view kScale = "the loss scale of fp16";
constexpr std::string_view kWideSums = "gradients are summed and travel in fp32";
constexpr std::string_view kOneRule =
    "a loss or gradient that is not finite skips the step, in every precision";
constexpr std::string_view kAutocastOff = "torch_autocast is off";
constexpr std::string_view kFp32 = "fp32|float32|float|null";
constexpr std::string_view kDtypes = "fp32|float32|float|fp16|float16|half|bf16|bfloat16";

constexpr KeyRow kRows[] = {
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
    {"communication_data_type", kText, kFp32, kIgnored, kWideSums, "fp16|bf16|fp32"},
    {"data_types", kOpen, "", kHonoured, "a block", ""},
    {"data_types.grad_accum_dtype", kText, kFp32, kIgnored, kWideSums, kDtypes},
    {"data_types.param_dtype", kText, kFp32, kElement, kBf16, kDtypes},
    {"data_types.buffer_dtype", kText, kFp32, kPrecision, kBuffers, kDtypes},
    {"torch_autocast", kOpen, "", kHonoured, "a block", ""},
    {"torch_autocast.enabled", kBool, "false", kPrecision, kNarrow, ""},
    {"torch_autocast.dtype", kText, "", kIgnored, kAutocastOff,
     "torch.float16|fp16|float16|half|torch.bfloat16|bf16|bfloat16|torch.float32|fp32|float32|"
     "float|"
     "torch.int8|int8"},
    {"torch_autocast.lower_precision_safe_modules", kTexts, "", kIgnored, kAutocastOff, ""},
    {"amp", kSwitch, "", kPrecision, kNarrow, ""},
};

}  // namespace

std::span<const KeyRow> precision_keys() { return kRows; }

}  // namespace fm::cli
