// Keys of LLaMA-Factory's files (src/llamafactory/hparams). Arguments of Hugging Face's Trainer,
// which it passes on, are in the table of those.
#include "cli/foreign/foreign_keys.h"

namespace fm::cli {
namespace {

constexpr std::string_view kAny = "*:";
constexpr std::string_view kOff = "false:";

constexpr std::string_view kRlhf = "supervised fine-tuning and pre-training alone are here";
constexpr std::string_view kQuantized =
    "quantized weights are not here; adapters train beside whole ones";
constexpr std::string_view kOtherLoss = "it trains with another loss or another optimizer";
constexpr std::string_view kOtherModel = "it trains another model";
constexpr std::string_view kMemory = "it saves memory or time and changes no number";
constexpr std::string_view kOwnKernels = "kernels are fmengine's own";
constexpr std::string_view kHub = "nothing is downloaded or uploaded";
constexpr std::string_view kMedia = "models read texts";
constexpr std::string_view kInference = "fmengine-generate continues texts";
constexpr std::string_view kExport = "fmengine-export writes folders of Hugging Face's form";
constexpr std::string_view kBelongs = "it belongs to a key that is refused where it counts";
constexpr std::string_view kTokens =
    "the tokenizer's own are taken; write others into the files of its folder";

constexpr ForeignKey kKeys[] = {
    // What is trained.
    {"stage", "sft,pt:", kRlhf},
    {"finetuning_type", "lora,full:", "freeze and oft are not here; use --train or --freeze",
     "train freeze lora_r"},
    {"lora_rank", "*: --lora_r=$", ""},
    {"lora_target", "all: --lora_target_modules=all-linear; *: --lora_target_modules=$", ""},
    {"additional_target", "*: --modules_to_save=$", ""},
    {"adapter_name_or_path", "*: --adapter=$", ""},
    {"create_new_adapter pissa_init use_dora", kOff, "adapters are LoRA's, and begin as peft's do"},
    {"loraplus_lr_ratio", "", "one learning rate holds for both parts of an adapter"},
    {"loraplus_lr_embedding pissa_iter pissa_convert", kAny, kBelongs},
    {"freeze_trainable_layers freeze_trainable_modules freeze_extra_modules oft_rank "
     "oft_block_size oft_target module_dropout",
     kAny, "it belongs to finetuning_type freeze and oft"},
    {"use_galore use_apollo use_badam use_adam_mini use_muon use_dft_loss use_asft_loss "
     "use_eaft_loss use_llama_pro use_mca use_megatron_bridge use_hyper_parallel use_kt",
     kOff, kOtherLoss},
    {"galore_target galore_rank galore_update_interval galore_scale galore_proj_type "
     "galore_layerwise apollo_target apollo_rank apollo_update_interval apollo_scale apollo_proj "
     "apollo_proj_type apollo_scale_type apollo_layerwise apollo_scale_front badam_mode "
     "badam_start_block badam_switch_mode badam_switch_interval badam_update_ratio "
     "badam_mask_mode badam_verbose asft_alpha eaft_alpha megatron_bridge_args "
     "hyper_parallel_args hyper_parallel_cp_size kt_cpu_activation kt_weight_path "
     "kt_config kt_non_expert_weight_path kt_expert_checkpoint_path kt_use_lora_experts "
     "kt_lora_expert_num "
     "kt_lora_expert_intermediate_size",
     kAny, kBelongs},
    {"pref_beta pref_ftx pref_bco_weight pref_loss dpo_label_smoothing kto_chosen_weight "
     "kto_rejected_weight simpo_gamma ppo_buffer_size ppo_epochs ppo_score_norm ppo_target "
     "ppo_whiten_rewards ref_model ref_model_adapters ref_model_quantization_bit reward_model "
     "reward_model_adapters reward_model_quantization_bit reward_model_type ld_alpha",
     kAny, kRlhf},
    {"freeze_vision_tower freeze_multi_modal_projector freeze_language_model", kAny, kMedia},
    {"pure_bf16", "true: --bf16=true !; false:", "masters are kept in fp32"},
    {"early_stopping_steps", "*: --early_stopping_patience=$", ""},
    {"compute_accuracy predict_with_generate include_effective_tokens_per_second", kAny,
     "the loss is the only metric, and tokens per second are always shown"},
    {"disable_shuffling", kOff, "rows are shuffled"},
    {"plot_loss", kAny, "fmengine-report draws it"},
    // Model.
    {"adapter_folder cache_dir model_revision hf_hub_token ms_hub_token om_hub_token", kAny, kHub},
    {"resize_vocab", "false:", "--add_tokens makes the rows that it needs", "add_tokens"},
    {"split_special_tokens", kOff, kTokens},
    {"add_tokens add_special_tokens", "", "use --add_tokens on the command line", "add_tokens"},
    {"new_special_tokens_config", "", kTokens},
    {"init_special_tokens", kAny, kBelongs},
    {"rope_scaling", "", "write it into config.json of the model's folder"},
    {"flash_attn use_unsloth use_unsloth_gc enable_liger_kernel use_reentrant_gc use_v1_kernels "
     "upcast_layernorm upcast_lmhead_output use_kv_cache print_param_status compute_dtype "
     "device_map block_diag_attn offload_folder",
     kAny, kOwnKernels},
    {"shift_attn", kOff, kOtherModel},
    {"mixture_of_depths", "", kOtherModel},
    {"moe_aux_loss_coef", kAny, "models have no experts"},
    {"disable_gradient_checkpointing", "true: --gradient_checkpointing=false; false:", kMemory},
    {"train_from_scratch", "*: --pretrain=$", ""},
    {"quantization_bit", "", kQuantized},
    {"quantization_method quantization_type double_quantization quantization_device_map", kAny,
     "it belongs to quantization_bit"},
    {"fp8", kOff, kQuantized},
    {"fp8_backend fp8_enable_fsdp_float8_all_gather", kAny, "it belongs to fp8"},
    {"image_max_pixels image_min_pixels image_do_pan_and_scan crop_to_patches video_max_pixels "
     "video_min_pixels video_fps video_maxlen use_audio_in_video audio_sampling_rate media_dir",
     kAny, kMedia},
    {"export_dir export_size export_device export_quantization_bit export_quantization_dataset "
     "export_quantization_nsamples export_quantization_maxlen export_legacy_format "
     "export_hub_model_id",
     kAny, kExport},
    {"infer_backend infer_dtype vllm_maxlen vllm_gpu_util vllm_enforce_eager vllm_max_lora_rank "
     "vllm_config sglang_maxlen sglang_mem_fraction sglang_tp_size sglang_config "
     "sglang_lora_backend do_sample temperature top_p top_k num_beams max_new_tokens "
     "repetition_penalty length_penalty skip_special_tokens eval_num_beams",
     kAny, kInference},
    // Data.
    {"dataset eval_dataset", "", "name files with --data_path and --eval_data_path",
     "data_path eval_data_path"},
    {"dataset_dir", kAny, "where dataset_info.json names the files"},
    {"template", "*: !",
     "the chat template of the model's folder is taken; --chat_template FILE names another",
     "chat_template"},
    {"cutoff_len", "*: --max_seq_len=$", ""},
    {"train_on_prompt", "*: --train_on_inputs=$", ""},
    {"mask_history", kOff, "all answers of a conversation are trained"},
    {"streaming buffer_size preprocessing_batch_size data_shared_file_system tokenized_path", kAny,
     "tokens are kept in --cache_dir"},
    {"mix_strategy", "concat:", "--data_path SHARE FILE SHARE FILE is a mixture", "data_path"},
    {"interleave_probs", "", "--data_path SHARE FILE SHARE FILE is a mixture", "data_path"},
    {"max_samples", "*: --max_train_samples=$ --max_eval_samples=$", ""},
    {"ignore_pad_token_for_loss", "true:", "padding is never trained"},
    {"val_size", "0:; *: --validation_split=$", "other rows than theirs are taken"},
    {"eval_on_each_dataset", kOff, "one evaluation takes all its data"},
    {"packing", "true: --packing=best_fit; false: --packing=none", "", "packing"},
    {"neat_packing", "true: --packing=best_fit --document_attention=true; false:", "", "packing"},
    {"tool_format default_system enable_thinking", "",
     "the chat template says it; write it there or into the rows", "chat_template"},
    {"preserve_thinking", kAny, "the chat template says it"},
    // Machine and services.
    {"ray_num_workers ray_init_kwargs master_addr master_port", kAny, "the launcher says it"},
    {"enable_torch_profiler profiler_output_dir profiler_wait_steps profiler_warmup_steps "
     "profiler_active_steps profiler_repeat profiler_record_shapes profiler_profile_memory "
     "profiler_with_stack profile_modules",
     kAny, "use --trace"},
    {"use_swanlab swanlab_project swanlab_workspace swanlab_run_name swanlab_mode swanlab_api_key "
     "swanlab_logdir swanlab_lark_webhook_url swanlab_lark_secret",
     kAny, "nothing is sent; --report_to writes event files"},
    {"task task_dir lang n_shot save_dir download_mode", kAny, "it belongs to their evaluation"},
};

}  // namespace

std::span<const ForeignKey> factory_keys() { return kKeys; }

}  // namespace fm::cli
