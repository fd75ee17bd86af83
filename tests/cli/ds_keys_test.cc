// The table against the list of keys of DeepSpeed 0.19 (deepspeed/runtime/config.py and the files
// it reads), typed here a second time, from that list.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "cli/deepspeed/ds_config_keys.h"

namespace fm::cli {
namespace {

// "block: key key ..." lines; a key may be followed by nothing else.
constexpr const char* kKeys = R"(
: train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps
: steps_per_print gradient_clipping prescale_gradients gradient_predivide_factor
: gradient_allreduce_op communication_data_type seq_parallel_communication_data_type
: managed_gradient_accumulation sparse_gradients disable_allgather dump_state dataloader_drop_last
: wall_clock_breakdown memory_breakdown log_level zero_allow_untested_optimizer
: zero_force_ds_cpu_optimizer graph_harvesting vocabulary_size sequence_parallel_size
: data_parallel_size use_data_before_expert_parallelism amp torch_autocast data_types eigenvalue
: progressive_layer_drop quantize_training compression_training sparse_attention
: weight_quantization hybrid_engine allgather_size optimizer scheduler fp16 bf16 bfloat16
: zero_optimization activation_checkpointing aio pipeline tensorboard wandb csv_monitor comet
: flops_profiler comms_logger timers checkpoint elasticity autotuning data_efficiency
: curriculum_learning tensor_parallel expert_parallel nebula datastates_ckpt compile
torch_autocast: enabled dtype lower_precision_safe_modules
data_types: grad_accum_dtype param_dtype buffer_dtype
optimizer: type params legacy_fusion
optimizer.params: lr betas eps weight_decay torch_adam adam_w_mode fp32_optimizer_states
optimizer.params: max_grad_norm bias_correction amsgrad momentum eps_inside_sqrt max_coeff
optimizer.params: min_coeff muon_lr adam_lr ns_method
scheduler: type params
scheduler.params: warmup_min_lr warmup_max_lr warmup_num_steps warmup_type total_num_steps
scheduler.params: warmup_min_ratio cos_min_ratio lr_range_test_min_lr lr_range_test_step_size
scheduler.params: lr_range_test_step_rate lr_range_test_staircase cycle_min_lr cycle_max_lr
scheduler.params: decay_lr_rate cycle_first_step_size cycle_second_step_size
scheduler.params: cycle_first_stair_count cycle_second_stair_count decay_step_size cycle_momentum
scheduler.params: cycle_min_mom cycle_max_mom decay_mom_rate
fp16: enabled auto_cast loss_scale initial_scale_power loss_scale_window hysteresis
fp16: consecutive_hysteresis min_loss_scale fp16_master_weights_and_grads
bf16: enabled immediate_grad_update check_grad_overflow bf16_master_weights_and_grads
bf16: bf16_optimizer_states
bfloat16: enabled immediate_grad_update check_grad_overflow bf16_master_weights_and_grads
bfloat16: bf16_optimizer_states
zero_optimization: stage contiguous_gradients reduce_scatter use_multi_rank_bucket_allreduce
zero_optimization: reduce_bucket_size allgather_partitions allgather_bucket_size overlap_comm
zero_optimization: load_from_fp32_weights elastic_checkpoint offload_param offload_optimizer
zero_optimization: zenflow sub_group_size cpu_offload cpu_offload_param cpu_offload_use_pin_memory
zero_optimization: stage3_prefetch_bucket_size prefetch_bucket_size
zero_optimization: stage3_param_persistence_threshold param_persistence_threshold
zero_optimization: stage3_model_persistence_threshold model_persistence_threshold
zero_optimization: stage3_max_live_parameters max_live_parameters stage3_max_reuse_distance
zero_optimization: max_reuse_distance stage3_gather_16bit_weights_on_model_save
zero_optimization: gather_16bit_weights_on_model_save stage3_gather_fp16_weights_on_model_save
zero_optimization: stage3_module_granularity_threshold stage3_use_all_reduce_for_fetch_params
zero_optimization: stage3_allgather_sequential ignore_unused_parameters legacy_stage1
zero_optimization: module_granularity_threshold use_all_reduce_for_fetch_params
zero_optimization: allgather_sequential
zero_optimization: round_robin_gradients zero_hpz_partition_size zero_quantized_weights
zero_optimization: zero_quantized_nontrainable_weights zero_quantized_gradients zeropp_loco_param
zero_optimization: mics_shard_size mics_hierarchical_params_gather memory_efficient_linear
zero_optimization: pipeline_loading_checkpoint override_module_apply log_trace_cache_warnings
zero_optimization: enable_sanity_checks save_muon_momentum_buffer_in_memory leaf_module
zero_optimization.leaf_module: classes names name_suffixes
zero_optimization.offload_param: device nvme_path buffer_count buffer_size max_in_cpu pin_memory
zero_optimization.offload_optimizer: device nvme_path buffer_count pin_memory pipeline_read
zero_optimization.offload_optimizer: pipeline_write fast_init ratio super_offload
zero_optimization.offload_optimizer: cpuadam_cores_perc
zero_optimization.zenflow: topk_ratio select_strategy select_interval update_interval overlap_step
zero_optimization.zenflow: offload auto_ratio full_warm_up_rounds pt_reserved_cores_perc
zero_optimization.zenflow: steps_per_epoch
activation_checkpointing: partition_activations number_checkpoints contiguous_memory_optimization
activation_checkpointing: cpu_checkpointing synchronize_checkpoint_boundary profile
aio: block_size queue_depth intra_op_parallelism thread_count single_submit overlap_events use_gds
pipeline: stages partition seed_layers activation_checkpoint_interval pipe_partitioned
pipeline: grad_partitioned use_reentrant
tensorboard: enabled output_path job_name
wandb: enabled group team project
csv_monitor: enabled output_path job_name
comet: enabled samples_log_interval project workspace api_key experiment_name experiment_key
comet: online mode
flops_profiler: enabled recompute_fwd_factor profile_step module_depth top_modules detailed
flops_profiler: output_file
comms_logger: enabled verbose prof_all debug prof_ops
timers.throughput: enabled synchronized
checkpoint: tag_validation load_universal use_node_local_storage parallel_write
checkpoint: checkpoint_serialization writer
checkpoint.parallel_write: pipeline_stage
checkpoint.writer: type decoupled io_buffer_size io_buffer_double show_statistics data_parallel
checkpoint.writer: io_multiplier
tensor_parallel.partition_config: use_default_specs layer_specs
elasticity: enabled max_train_batch_size micro_batch_sizes min_gpus max_gpus min_time
elasticity: prefer_larger_batch ignore_non_elastic_batch_info version model_parallel_size
elasticity: num_gpus_per_node
autotuning: enabled fast results_dir exps_dir overwrite start_profile_step end_profile_step metric
autotuning: metric_path tuner_type tuner_early_stopping tuner_num_trials arg_mappings
autotuning: max_train_batch_size min_train_batch_size max_train_micro_batch_size_per_gpu
autotuning: min_train_micro_batch_size_per_gpu num_tuning_micro_batch_sizes mp_size model_info
autotuning: model_info_path
data_efficiency: enabled seed data_sampling data_routing
curriculum_learning: enabled curriculum_type min_difficulty max_difficulty schedule_type
curriculum_learning: schedule_config
tensor_parallel: autotp_size tp_overlap_comm tp dtype partition_config preset_model
tensor_parallel.tp: tp_size tp_grain_size
nebula: enabled persistent_storage_path persistent_time_interval num_of_version_in_retention
nebula: enable_nebula_load nebula_load_path
compile: deepcompile free_activation free_activation_threshold offload_activation
compile: offload_activation_pin_memory offload_opt_states offload_parameters double_buffer
compile: symmetric_memory debug_log sync_before_reduce sync_after_reduce sync_before_allgather
compile: sync_after_allgather keep_int_input_tensors keep_all_input_tensors passes
)";

std::vector<std::string> listed_paths() {
  std::vector<std::string> paths;
  std::istringstream lines(kKeys);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string block = line.substr(0, colon);
    std::istringstream keys(line.substr(colon + 1));
    for (std::string key; keys >> key;) paths.push_back(block.empty() ? key : block + "." + key);
  }
  return paths;
}

TEST(DsConfigKeys, HoldsEveryKeyOfDeepSpeed) {
  const std::vector<std::string> paths = listed_paths();
  EXPECT_GT(paths.size(), 250U);
  for (const std::string& path : paths) EXPECT_NE(find_key(path), nullptr) << path;
}

TEST(DsConfigKeys, ARowMayNameSeveralKeysOfABlock) {
  const KeyRow* row = find_key("comms_logger.debug");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row, find_key("comms_logger.prof_all"));
  for (const char* path : {"comms_logger.prof_all|debug", "comms_logger.debu", "comms_logger.",
                           "debug", "comms_logger|debug"}) {
    EXPECT_EQ(find_key(path), nullptr) << path;
  }
  EXPECT_EQ(keys_below("comms_logger"),
            (std::vector<std::string>{"enabled", "verbose", "prof_all", "debug", "prof_ops"}));
  EXPECT_EQ(block_of("tuner_type"), "autotuning");
  EXPECT_EQ(path_of_flag("tuner_type"), "autotuning.tuner_type");
}

// "enabled" is a key of many blocks.
TEST(DsConfigKeys, ANameOfOneBlockLeadsToIt) {
  EXPECT_EQ(block_of("stage"), "zero_optimization");
  EXPECT_EQ(block_of("gradient_clipping"), "");
  EXPECT_EQ(block_of("enabled"), std::nullopt);
  EXPECT_EQ(block_of("nonsense"), std::nullopt);
}

TEST(DsConfigKeys, NoKeyIsListedTwice) {
  std::set<std::string_view> seen;
  for (const KeyRow& row : ds_config_keys()) EXPECT_TRUE(seen.insert(row.path).second) << row.path;
}

// deepspeed/runtime/zero/config.py (new_param) and runtime/config.py (bfloat16).
TEST(DsConfigKeys, MovedKeysCountAsTheirSuccessors) {
  std::map<std::string_view, std::string_view> moved;
  for (const DeprecatedKey& key : deprecated_keys()) moved[key.old_path] = key.new_path;
  const std::map<std::string_view, std::string_view> expected = {
      {"zero_optimization.stage3_gather_fp16_weights_on_model_save",
       "zero_optimization.gather_16bit_weights_on_model_save"},
      {"zero_optimization.cpu_offload", "zero_optimization.offload_optimizer"},
      {"zero_optimization.cpu_offload_param", "zero_optimization.offload_param"},
      {"bfloat16", "bf16"}};
  EXPECT_EQ(moved, expected);
  for (const auto& [old_path, new_path] : moved) {
    EXPECT_NE(find_key(old_path), nullptr) << old_path;
    EXPECT_NE(find_key(new_path), nullptr) << new_path;
  }
}

TEST(DsConfigKeys, EveryRowSaysWhy) {
  for (const KeyRow& row : ds_config_keys()) EXPECT_FALSE(row.why.empty()) << row.path;
}

TEST(DsConfigKeys, EveryParentIsABlock) {
  for (const KeyRow& row : ds_config_keys()) {
    const std::size_t dot = row.path.rfind('.');
    if (dot == std::string_view::npos) continue;
    const KeyRow* parent = find_key(row.path.substr(0, dot));
    ASSERT_NE(parent, nullptr) << row.path;
    EXPECT_TRUE(parent->type == KeyType::kBlock || parent->type == KeyType::kOpen) << row.path;
  }
}

// pydantic's extra="forbid" in the reference.
TEST(DsConfigKeys, BlocksThatDeepSpeedModelsAreClosed) {
  for (const char* path :
       {"zero_optimization", "zero_optimization.offload_param",
        "zero_optimization.offload_optimizer", "zero_optimization.zenflow",
        "zero_optimization.leaf_module", "fp16", "bf16", "bfloat16", "tensorboard", "wandb",
        "csv_monitor", "comet", "comms_logger", "timers.throughput", "tensor_parallel"}) {
    EXPECT_EQ(find_key(path)->type, KeyType::kBlock) << path;
  }
}

}  // namespace
}  // namespace fm::cli
