// Keys of axolotl's files (src/axolotl/utils/schemas). What Hugging Face's Trainer has under the
// same name is in its table.
#include "cli/foreign/foreign_keys.h"

namespace fm::cli {
namespace {

constexpr std::string_view kAny = "*:";
constexpr std::string_view kOff = "false:";

constexpr std::string_view kQuantized =
    "quantized weights are not here; adapters train beside whole ones";
constexpr std::string_view kRlhf = "supervised fine-tuning and pre-training alone are here";
constexpr std::string_view kAdam =
    "AdamW is here, with states in fp32; others that are here are written into "
    "--deepspeed_config FILE";
constexpr std::string_view kService = "nothing is sent; --report_to writes event files";
constexpr std::string_view kMemory = "it saves memory or time and changes no number";
constexpr std::string_view kOwnKernels = "kernels are fmengine's own";
constexpr std::string_view kTokens =
    "the tokenizer's own are taken; write others into the files of its folder";
constexpr std::string_view kSharding =
    "zero_optimization in --deepspeed_config FILE says how weights are sharded, which changes no "
    "number";
constexpr std::string_view kRows = "how rows are filled changes no number";
constexpr std::string_view kFile = "write the rows that are wanted into a file";
constexpr std::string_view kColumns = "give --data_path FILE with --columns";
constexpr std::string_view kMessages =
    "write messages with role and content, and weight 0 where a turn is not trained";
constexpr std::string_view kModelFile = "write it into config.json of the model's folder";
constexpr std::string_view kRanks = "the launcher says it";
constexpr std::string_view kSchedule = "--lr_scheduler_type and --lr_scheduler_kwargs have others";
constexpr std::string_view kGenerate = "fmengine-generate continues texts";
constexpr std::string_view kNotHere = "it trains another loss or another model";

constexpr ForeignKey kKeys[] = {
    // Model.
    {"base_model", "*: --init_ckpt=$", ""},
    {"base_model_config", "", "use --model_config FILE", "init_ckpt model_config"},
    {"tokenizer_config", "*: --tokenizer=$", ""},
    {"model_type tokenizer_type tokenizer_use_fast is_falcon_derived_model is_llama_derived_model "
     "is_mistral_derived_model is_qwen_derived_model trust_remote_code base_model_ignore_patterns "
     "tokenizer_save_jinja_files experimental_skip_move_to_device low_cpu_mem_usage "
     "hf_use_auth_token qlora_sharded_model_loading",
     kAny, "config.json and the tokenizer's files say what they are"},
    {"revision_of_model", "main:", "name the folder of that revision with --init_ckpt",
     "init_ckpt"},
    {"tokenizer_legacy tokenizer_use_mistral_common overrides_of_model_config model_config "
     "overrides_of_model_kwargs rope_scaling scaling_softmax scaling_softmax_factor "
     "scaling_softmax_bias",
     kOff, kModelFile},
    {"processor_type processor_kwargs type_of_model cls_model_config image_size "
     "image_resize_algorithm role_boundaries",
     "", kNotHere},
    {"load_in_4bit load_in_8bit nvfp4_merge_aware gptq gptq_disable_exllama gptq_groupsize "
     "gptq_model_v1 use_onebitllms "
     "quantize_moe_experts fp8 fp8_enable_fsdp_float8_all_gather",
     kOff, kQuantized},
    {"bnb_config_kwargs loftq_bits loftq_config qat quantization model_quantization_config "
     "model_quantization_config_kwargs",
     "", kQuantized},
    {"special_tokens.pad_token tokens.pad_token", kAny, "padding is never trained"},
    {"special_tokens.eos_token tokens.eos_token", "*: --eos_token=$", "", "eos_token tokenizer"},
    {"special_tokens.bos_token special_tokens.unk_token tokens.bos_token tokens.unk_token "
     "added_tokens_overrides eot_tokens",
     "", kTokens, "tokenizer"},
    {"tokens special_tokens.additional_special_tokens", "", "use --add_tokens", "add_tokens"},
    {"mean_resizing_embeddings", kAny, "rows of --add_tokens begin as the mean of the others"},
    {"resize_token_embeddings_to_32x shrink_embeddings reinit_weights", kOff,
     "the model keeps its shape but for --add_tokens"},
    {"embeddings_skip_upcast fix_untrained_tokens", kAny, kOwnKernels},
    {"unfrozen_parameters", "", "use --train with one regular expression", "train"},
    {"freeze_mm_modules", kAny, "models read texts"},
    // Data.
    {"datasets[].path", "*: --data_path=$", "", "data_path"},
    {"datasets[].data_files", "*: --data_path=$", "", "data_path"},
    {"datasets[].type", "alpaca,chat_template,completion,sharegpt: ; null:",
     "a row's fields say what it is: messages, instruction, text; other prompts are not here",
     "data_path"},
    {"datasets[].ds_type", "json,csv,text,parquet,arrow:", "a file's name says what it is",
     "data_path"},
    {"datasets[].name datasets[].revision datasets[].trust_remote_code", kAny,
     "nothing is downloaded; name a file with --data_path"},
    {"datasets[].split", "train:", kFile, "data_path"},
    {"datasets[].field_messages", "messages,conversations:", kColumns, "data_path columns"},
    {"datasets[].message_property_mappings.role datasets[].message_field_role",
     "role,from:", kMessages, "data_path"},
    {"datasets[].message_property_mappings.content datasets[].message_field_content",
     "content,value:", kMessages, "data_path"},
    {"datasets[].field", "text: ; *: --text_field=$", "", "data_path"},
    {"datasets[].message_field_training", "train,training,weight:", kMessages, "data_path"},
    {"datasets[].roles_to_train", "assistant,gpt:", "the assistant's turns are trained"},
    {"datasets[].train_on_eos datasets[].train_on_eot",
     "turn:", "the end of each trained turn is trained"},
    {"datasets[].roles", "", "roles are system, user, assistant and tool", "data_path"},
    {"datasets[].conversation datasets[].chat_template",
     "tokenizer_default,tokenizer:", "use --chat_template FILE, a Jinja file", "chat_template"},
    {"datasets[].chat_template_jinja", "", "use --chat_template FILE, a Jinja file",
     "chat_template"},
    {"datasets[].drop_system_message datasets[].split_thinking", kOff, kFile, "data_path"},
    {"datasets[].field_thinking datasets[].template_thinking_key",
     "reasoning_content,thinking:", kMessages, "data_path"},
    {"datasets[].preprocess_shards", kAny, kMemory},
    {"datasets[].shards datasets[].shards_idx datasets[].message_field_training_detail "
     "datasets[].input_transform datasets[].input_format datasets[].field_human "
     "datasets[].field_model datasets[].field_tools datasets[].logprobs_field "
     "datasets[].temperature datasets[].field_instruction datasets[].field_input "
     "datasets[].field_output datasets[].field_system datasets[].system_prompt "
     "datasets[].system_format datasets[].format datasets[].no_input_format",
     "", kFile, "data_path"},
    {"datasets[].field_chosen datasets[].field_rejected datasets[].field_prompt "
     "datasets[].field_completion datasets[].field_label datasets[].step_separator "
     "datasets[].max_completion_length datasets[].train_on_last_step_only",
     "", kRlhf},
    {"test_datasets[].path", "*: --eval_data_path=$", "", "eval_data_path"},
    {"test_datasets[].type", "alpaca,chat_template,completion,sharegpt:",
     "a row's fields say what it is", "eval_data_path"},
    {"test_datasets[].ds_type test_datasets[].split test_datasets[].name", kAny,
     "nothing is downloaded"},
    {"test_datasets[].data_files", "", kFile, "eval_data_path"},
    {"pretraining_dataset", "*: --data_path=$", "", "data_path"},
    {"pretraining_dataset[].path", "*: --data_path=$", "", "data_path"},
    {"pretraining_dataset[].text_column", "text: ; *: --text_field=$", ""},
    {"pretraining_dataset[].type", "pretrain,completion:", "texts are trained"},
    {"pretraining_dataset[].split", "train:", kFile, "data_path"},
    {"pretraining_dataset[].name pretraining_dataset[].trust_remote_code", kAny,
     "nothing is downloaded"},
    {"pretraining_dataset[].data_files pretraining_dataset[].skip", "", kFile, "data_path"},
    {"val_set_size", "0:; *: --validation_split=$", "other rows than theirs are taken"},
    {"shuffle_merged_datasets", "true:", "rows are shuffled"},
    {"shuffle_before_merging_datasets", kAny, "rows are shuffled"},
    {"dataset_prepared_path", kAny, "tokens are kept in --cache_dir"},
    {"dataset_exact_deduplication curriculum_sampling sample_packing_sequentially", kOff, kFile},
    {"push_dataset_to_hub dataset_shard_num dataset_shard_idx", "", kFile},
    {"skip_prepare_dataset", kOff, "rows are prepared by fmengine"},
    {"num_dataset_shards_to_save dataset_processes dataset_num_proc dataset_keep_in_memory "
     "streaming_multipack_buffer_size pretrain_multipack_buffer_size preprocess_iterable "
     "is_preprocess axolotl_config_path streaming sample_packing_mp_start_method",
     kAny, kMemory},
    {"chat_template", "tokenizer_default:",
     "use --chat_template FILE, a Jinja file; without it that of the model's folder is taken",
     "chat_template"},
    {"chat_template_jinja", "", "use --chat_template FILE, a Jinja file", "chat_template"},
    {"chat_template_kwargs default_system_message", "", "write it into the rows"},
    // Rows.
    {"sequence_len", "*: --max_seq_len=$", ""},
    {"eval_sequence_len max_packed_sequence_len", "", "--max_seq_len holds for all rows"},
    {"sample_packing", "true: --packing=best_fit --document_attention=true; false: --packing=none",
     "it is true or false"},
    {"batch_flattening", kAny, kRows},
    {"eval_sample_packing pad_to_sequence_len pad_to_multiple_of sample_packing_group_size "
     "sample_packing_bin_size multipack_real_batches total_num_tokens total_supervised_tokens "
     "sample_packing_eff_est sample_packing_seq_len_multiplier",
     kAny, kRows},
    {"pretraining_sample_concatenation", "true: ?--packing=concat; false:", "it is true or false"},
    {"pretrain_multipack_attn", "true: ?--document_attention=true; false:", "it is true or false"},
    {"excess_length_strategy",
     "truncate:", "a document that is longer than a row is cut; leave such rows out of the file"},
    {"min_sample_len", "", kFile},
    {"max_prompt_len", kAny, kRlhf},
    {"use_pose pose_split_on_token_ids pose_max_context_len pose_num_chunks", kOff, kNotHere},
    // Optimizer, schedule, batch.
    {"micro_batch_size", "*: --per_device_train_batch_size=$", ""},
    {"batch_size", "", "use micro_batch_size and gradient_accumulation_steps"},
    {"num_epochs", "*: --num_train_epochs=$", ""},
    {"optimizer",
     "adamw_torch,adamw_torch_fused,adamw_hf,adamw_apex_fused,optimi_adamw,flash_adamw: ; "
     "adamw_bnb_8bit,adamw_8bit,paged_adamw,paged_adamw_32bit,paged_adamw_8bit,"
     "adamw_torch_8bit,ao_adamw_fp8,ao_adamw_8bit: !",
     kAdam, "deepspeed_config"},
    {"optim_args optim_target_modules", "", kAdam},
    {"lr_scheduler", "*: --lr_scheduler_type=$", ""},
    {"adam_eps", "*: --adam_epsilon=$", ""},
    {"adam_beta3 adam_epsilon2 dion_lr dion_momentum dion_rank_fraction dion_rank_multiple_of "
     "qgalore_rank qgalore_update_proj_gap qgalore_scale qgalore_proj_type qgalore_proj_quant "
     "qgalore_proj_bits qgalore_proj_group_size qgalore_cos_threshold qgalore_gamma_proj "
     "qgalore_queue_size torchdistx_path",
     kAny, "AdamW has no such value"},
    {"cosine_min_lr_ratio cosine_constant_lr_ratio lr_quadratic_warmup lr_div_factor "
     "jagged_restart_steps jagged_restart_warmup_steps jagged_restart_anneal_steps eta_min",
     kOff, kSchedule},
    {"embedding_lr embedding_lr_scale lr_groups", "", "one learning rate holds for all"},
    {"loraplus_lr_ratio", "", "one learning rate holds for both parts of an adapter"},
    {"loraplus_lr_embedding", kAny, "it belongs to loraplus_lr_ratio"},
    {"bf16 bfloat16", "auto,true,full: --bf16=true; false:", "masters are kept in fp32"},
    {"fp16 float16", "true: --fp16=true; false:", "masters are kept in fp32"},
    {"float32", "true,false:", "without bf16 or fp16 it is fp32"},
    {"gradient_checkpointing",
     "true,offload,offload_disk: --gradient_checkpointing=true; false: "
     "--gradient_checkpointing=false",
     "activations are recomputed, or kept"},
    {"selective_checkpointing activation_offloading layer_offloading tiled_mlp "
     "tiled_mlp_num_shards tiled_mlp_use_original_mlp lora_on_cpu gc_steps gc_collect_steps "
     "chunked_cross_entropy chunked_cross_entropy_num_chunks cut_cross_entropy max_memory "
     "gpu_memory_limit torch_compile_options deepcompile dynamic_checkpoint",
     kAny, kMemory},
    // Adapters.
    {"full_finetune", kAny, "without an adapter all weights are trained"},
    {"adapter",
     "lora:", "qlora and other kinds are not here; --lora_r N trains adapters beside whole weights",
     "lora_r adapter"},
    {"lora_model_dir", "*: --adapter=$", ""},
    {"lora_target_linear", "true: --lora_target_modules=all-linear; false:", "",
     "lora_target_modules"},
    {"lora_modules_to_save", "*: --modules_to_save=$", ""},
    {"peft_use_rslora", "*: --use_rslora=$", ""},
    {"peft_trainable_token_indices", "", "use --trainable_token_indices",
     "trainable_token_indices"},
    {"peft_use_dora", kOff, "DoRA is not here"},
    {"peft_init_lora_weights", "true:", "adapters begin as peft's do"},
    {"lora_fan_in_fan_out peft_autocast_adapter_dtype merge_lora merge_method", kAny,
     "the model says it; an export has both, the adapter and the merged weights"},
    {"lora_rank_pattern lora_alpha_pattern lora_target_parameters peft_layers_to_transform "
     "peft_layers_pattern peft_layer_replication "
     "peft_ensure_weight_tying peft relora relora_prune_ratio relora_prune_method "
     "relora_cpu_offload lisa_n_layers lisa_step_interval lisa_layers_attribute",
     kOff, "all adapters have one rank, in all layers"},
    {"lora_mlp_kernel lora_qkv_kernel lora_o_kernel lora_embedding_kernel", kAny, kOwnKernels},
    // Kernels and ranks.
    {"flash_attention sdp_attention xformers_attention flex_attention flex_attn_compile_kwargs "
     "sage_attention eager_attention flash_optimum flash_attn_cross_entropy flash_attn_fuse_mlp "
     "flash_attn_rms_norm flash_attn_d512 sdpa_varlen fused_attn_kernel large_head_attention "
     "gemma4_hybrid_attn_impl use_kernels plugins liger_rope liger_rms_norm liger_layer_norm "
     "liger_glu_activation liger_fused_linear_cross_entropy liger_cross_entropy "
     "liger_rms_norm_gated fp32_norms fp32_norm_classes",
     kAny, kOwnKernels},
    {"s2_attention", kOff, kNotHere},
    {"experts_implementation expert_parallel_size use_scattermoe use_sonicmoe "
     "llama4_linearized_experts use_dsv4_kernels use_glm_dsa_kernels dsv4_fp4_grouped_mode "
     "expert_parallel_token_capacity expert_parallel_num_nvl_bytes",
     kAny, "models have no experts"},
    {"fsdp_version fsdp_final_state_dict_type dp_shard_size dp_replicate_size", kAny, kSharding},
    {"tensor_parallel_size", "*: --model_parallel_size=$", ""},
    {"context_parallel_size sequence_parallel_degree", "*: --sequence_parallel_size=$", ""},
    {"heads_k_stride", kAny, kOwnKernels},
    {"ring_attn_func", kAny, "use --sequence_parallel"},
    {"device device_map ddp use_ray ray_run_name ray_num_workers resources_per_worker", kAny,
     kRanks},
    {"strict", kAny, "unknown keys are always refused"},
    // Evaluation, checkpoints, output.
    {"evals_per_epoch saves_per_epoch", kAny, "becomes a share of all steps"},
    {"auto_resume_from_checkpoints", "true: --resume=auto; false:", "it is true or false"},
    {"save_first_step", kOff, "use --save_steps"},
    {"eval_table_size eval_max_new_tokens do_causal_lm_eval eval_causal_lm_metrics "
     "do_bench_eval bench_dataset bench_split use_tensorboard include_tkps",
     kAny, "an evaluation gives the loss; --report_to tensorboard writes event files"},
    {"loss_watchdog_threshold loss_watchdog_patience", kAny, "a run whose loss is no number stops"},
    {"profiler_steps profiler_steps_start", kAny, "use --trace"},
    {"generate_samples num_generation_samples generation_max_new_tokens generation_temperature "
     "generation_top_p generation_top_k generation_prompt_ratio generation_do_sample",
     kAny, kGenerate},
    {"capabilities env_capabilities debug", kAny, "--report prints what the machine has"},
    {"wandb_project wandb_entity wandb_watch wandb_name wandb_run_id wandb_log_model wandb_mode "
     "use_wandb mlflow_tracking_uri mlflow_experiment_name mlflow_run_name use_mlflow "
     "hf_mlflow_log_artifacts use_comet comet_api_key comet_workspace comet_project_key "
     "comet_experiment_key comet_project_name comet_mode comet_online comet_experiment_config "
     "use_swanlab "
     "swanlab_project swanlab_experiment_name swanlab_description swanlab_mode swanlab_workspace "
     "swanlab_log_model swanlab_log_completions swanlab_completion_max_buffer "
     "swanlab_completion_log_interval use_trackio trackio_project_name trackio_run_name "
     "use_otel_metrics "
     "otel_metrics_host otel_metrics_port gradio_title gradio_share gradio_server_name "
     "gradio_server_port gradio_max_new_tokens gradio_temperature",
     kAny, kService},
    // Other losses.
    {"rl trl vllm ebft orpo_alpha rl_beta dpo_beta cpo_alpha simpo_gamma rpo_alpha "
     "kto_desirable_weight kto_undesirable_weight dpo_use_weighting dpo_label_smoothing "
     "precompute_ref_log_probs dpo_use_liger_kernel dpo_padding_free dpo_loss_type "
     "dpo_loss_weights dpo_use_logits_to_keep dpo_generate_during_eval dpo_norm_loss reward_model "
     "process_reward_model center_rewards_coefficient num_labels",
     kOff, kRlhf},
    {"use_eaft eaft_alpha eaft_k noisy_embedding_alpha diffusion trainer_cls llmcompressor "
     "kd_trainer kd_ce_alpha kd_alpha kd_temperature spectrum_top_fraction",
     kOff, kNotHere},
};

}  // namespace

std::span<const ForeignKey> axolotl_keys() { return kKeys; }

}  // namespace fm::cli
