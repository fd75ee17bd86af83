// optimizer and scheduler. Which params a type takes is decided with the type, in ds_optimizer.cc
// and ds_scheduler.cc: params is open here.
#include "cli/deepspeed/ds_config_keys.h"

namespace fm::cli {
namespace {

using enum KeyType;
using enum Verdict;

constexpr std::string_view kOneLoop = "it chooses among implementations of the same update";
constexpr std::string_view kAdam = "as DeepSpeed's FusedAdam";
constexpr std::string_view kSchedule = "as deepspeed/runtime/lr_schedules.py";

constexpr KeyRow kRows[] = {
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

}  // namespace

std::span<const KeyRow> optimizer_keys() { return kRows; }

}  // namespace fm::cli
