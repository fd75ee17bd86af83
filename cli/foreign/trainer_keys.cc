// Hugging Face's Trainer (TrainingArguments of transformers 4 and 5), its example run_clm.py, and
// TRL's SFTConfig, ScriptArguments and ModelConfig. Names that are ours, too, have a row only where
// some values are spelt in another way.
#include "cli/foreign/foreign_keys.h"

namespace fm::cli {
namespace {

constexpr std::string_view kAny = "*:";
constexpr std::string_view kOff = "false:";
constexpr std::string_view kLength = "*: --max_seq_len=$";

constexpr std::string_view kNoWorkers = "data is read without worker processes";
constexpr std::string_view kNoTorch = "torch does not run here";
constexpr std::string_view kNoHub = "nothing is uploaded; hf upload does that";
constexpr std::string_view kNoService = "nothing is sent; --report_to writes event files";
constexpr std::string_view kNoDownload =
    "nothing is downloaded; hf download X --local-dir FOLDER makes a folder for --init_ckpt";
constexpr std::string_view kNoDatasets =
    "nothing is downloaded; fetch the files (hf download, or load_dataset(...).save_to_disk) and "
    "name them with --data_path";
constexpr std::string_view kEveryRow = "write the rows that are wanted into a file";
constexpr std::string_view kMicroBatch =
    "an evaluation takes the micro-batches of the training, and its loss does not depend on them";
constexpr std::string_view kQuantized =
    "quantized weights are not here; adapters train beside whole ones";
constexpr std::string_view kMemoryOnly = "it saves memory and changes no number";
constexpr std::string_view kNoMetrics = "the loss is the only metric";
constexpr std::string_view kNoCard = "it runs on CPUs unless --device says another";
constexpr std::string_view kOneClock = "each rank logs what all of them have";
constexpr std::string_view kAdam =
    "without an optimizer block in --deepspeed_config FILE it is AdamW, with states in fp32; leave "
    "the flag out, and for Lion, Adagrad, Lamb, Muon or SGD write \"optimizer\": {\"type\": "
    "\"SGD\"} there";

constexpr ForeignKey kKeys[] = {
    // Our flags under another name.
    {"max_steps", "*: --train_steps=$", ""},
    {"logging_steps", "*: --log_steps=$", ""},
    {"save_total_limit", "*: --keep_last=$", ""},
    {"model_name_or_path model_name base_model", "*: --init_ckpt=$", ""},
    {"config_name", "*: --model_config=$", ""},
    {"tokenizer_name tokenizer_name_or_path", "*: --tokenizer=$", ""},
    {"train_file", "*: --data_path=$", ""},
    {"validation_file", "*: --eval_data_path=$", ""},
    {"evaluation_strategy", "*: --eval_strategy=$", ""},
    {"resume_from_checkpoint", "true: --resume=must; false: --resume=never; *: --resume=$", ""},
    {"lr", "*: --learning_rate=$", ""},
    {"num_epochs epochs", "*: --num_train_epochs=$", ""},
    {"micro_batch_size per_gpu_train_batch_size", "*: --per_device_train_batch_size=$", ""},
    {"block_size max_length max_seq_length cutoff_len sequence_len seq_length model_max_length",
     kLength, ""},
    {"dataset_text_field", "*: --text_field=$", ""},
    {"chat_template_path", "*: --chat_template=$", ""},
    {"lora_rank", "*: --lora_r=$", ""},
    {"lora_modules_to_save", "*: --modules_to_save=$", ""},
    {"datasets[].path", "*: --data_path=$", ""},
    {"activation_checkpointing", "*: --gradient_checkpointing=$", ""},
    // Values of our own flags that others spell in another way.
    {"deepspeed", "true,false:; *: --deepspeed_config=$", ""},
    {"packing",
     "true: ?--packing=best_fit ?--document_attention=true; false: --packing=none; *: --packing=$",
     ""},
    {"use_peft",
     "true: ?--lora_r=16 ?--lora_alpha=32 ?--lora_dropout=0.05; false: --use_peft=false",
     "with TRL's values where none are given; --lora_r N is enough"},
    {"dtype torch_dtype model_dtype",
     "float32,auto:; bfloat16: ?--precision=bf16; float16: ?--precision=fp16",
     "weights are updated in fp32 beside what --bf16 or --fp16 computes with"},
    // What is trained.
    {"packing_strategy", "bfd:",
     "instead of wrapped give --packing concat; documents that are longer than a row are cut"},
    {"padding_free pad_to_multiple_of length_column_name", kAny,
     "how rows are filled changes no number"},
    {"train_sampling_strategy", "random:", "rows are shuffled; --packing best_fit wastes less"},
    {"group_by_length", kOff, "rows are shuffled; --packing best_fit wastes less"},
    {"truncation_mode", "keep_start:", "a document that is longer than a row keeps its start"},
    {"shuffle_dataset", kAny, "rows are shuffled in any case"},
    {"eval_packing", kAny, "evaluation rows are packed as training rows are"},
    {"loss_type", "nll,chunked_nll:", "the loss is cross-entropy"},
    {"label_smoothing_factor", "0:", "labels are not smoothed"},
    {"neftune_noise_alpha", "0:", "no noise is added to embeddings"},
    {"router_aux_loss_coef", kAny, "models have no routers"},
    {"average_tokens_across_devices", "true:",
     "the loss is the mean over the tokens of all ranks; --loss_reduction mean_of_means is "
     "another"},
    {"pad_token", kAny, "padding is never trained"},
    {"dataset_kwargs model_init_kwargs config_overrides", "",
     "leave it out; what it holds has flags of its own, or is written into config.json"},
    {"lora_target_parameters", "", "adapters lie beside linear layers, by --lora_target_modules"},
    {"lora_task_type", "causal_lm:", "models continue texts"},
    {"use_dora", kOff, "DoRA is not here; --lora_r N trains LoRA"},
    {"load_in_4bit load_in_8bit", kOff, kQuantized},
    {"bnb_4bit_quant_type use_bnb_nested_quant bnb_4bit_quant_storage bnb_4bit_compute_dtype", kAny,
     "no weight is quantized"},
    {"optim",
     "adamw_torch,adamw_torch_fused,adamw_hf,adamw_apex_fused,adamw_torch_xla,adamw_torch_npu_fused"
     ":; "
     "adamw_torch_8bit,adamw_torch_4bit,adamw_anyprecision,adamw_bnb_8bit,adamw_8bit,paged_adamw,"
     "paged_adamw_32bit,paged_adamw_8bit: !",
     kAdam},
    {"adafactor", kOff, kAdam},
    {"optim_args optim_target_modules", "", kAdam},
    {"use_liger_kernel liger_kernel_config", kAny, "kernels are fmengine's own, with fused losses"},
    // Data.
    {"dataset_name dataset_config_name dataset_config dataset dataset_path", "", kNoDatasets,
     "data_path"},
    {"dataset_train_split", "train:", kEveryRow, "data_path"},
    {"dataset_test_split", kAny, "--eval_data_path FILE or --validation_split SHARE evaluate"},
    {"dataset_streaming streaming", kAny, "files are read as they are needed in any case"},
    {"dataset_num_proc preprocessing_num_workers", kAny, "text is tokenized by all --threads"},
    {"max_samples", "*: --max_train_samples=$", ""},
    {"max_predict_samples", kAny, "nothing is predicted; fmengine-generate continues texts"},
    {"validation_split_percentage val_set_size test_split_size", "",
     "use --validation_split, a share of 1", "validation_split split eval_data_path"},
    {"keep_linebreaks", "true:", "texts are trained as they are"},
    {"overwrite_cache", kAny, "text is tokenized again where it has changed"},
    {"remove_unused_columns label_names", kAny, "fields that nothing reads are stepped over"},
    {"datasets[].name datasets[].data_dir datasets[].data_files datasets[].columns", "",
     kNoDatasets, "data_path"},
    {"datasets[].split", "train:", kEveryRow, "data_path"},
    {"datasets[].fraction", "1:", "--data_path SHARE FILE SHARE FILE is a mixture", "data_path"},
    {"dataloader_num_workers dataloader_pin_memory dataloader_persistent_workers "
     "dataloader_prefetch_factor dataloader_multiprocessing_context dataloader_in_order",
     kAny, kNoWorkers},
    {"dataloader_drop_last", kAny, "every row is trained, and every step is whole"},
    {"data_seed", kAny, "--seed orders the rows"},
    {"ignore_data_skip", kOff, "a run goes on with the row where it stopped"},
    // Steps, evaluation, checkpoints, output.
    {"do_train", "true:", "it trains; --eval_only evaluates alone, --plan starts nothing"},
    {"do_eval", kAny, "evaluation runs where there is --eval_data_path or a split"},
    {"do_predict", kOff, "fmengine-generate continues texts"},
    {"overwrite_output_dir", kAny,
     "a run resumes where its folder has checkpoints; --resume never"},
    {"logging_strategy", kAny,
     "--log_steps says how often a line is printed; metrics.jsonl has every step"},
    {"logging_first_step", kAny, "the first step is always logged"},
    {"logging_nan_inf_filter", kAny, "losses are logged as they are"},
    {"log_on_each_node save_on_each_node", kAny, kOneClock},
    {"log_level log_level_replica", kAny, "there is one level"},
    {"disable_tqdm", kAny, "a bar is drawn in terminals only"},
    {"run_name", kAny, "a run is known by its --output_dir"},
    {"project trackio_space_id trackio_bucket_id trackio_static_space_id", kAny, kNoService},
    {"include_num_input_tokens_seen include_tokens_per_second", kAny, "tokens are always counted"},
    {"skip_memory_metrics", kAny, "memory is always shown"},
    {"per_device_eval_batch_size per_gpu_eval_batch_size eval_batch_size eval_accumulation_steps",
     kAny, kMicroBatch},
    {"eval_delay", "0:", "evaluation begins with --eval_steps"},
    {"eval_on_start", kOff, "--eval_only evaluates before a training"},
    {"prediction_loss_only eval_do_concat_batches eval_use_gather_object include_for_metrics "
     "batch_eval_metrics include_inputs_for_metrics",
     kAny, kNoMetrics},
    {"save_only_model", kAny, "a checkpoint has the state of the optimizer; the export has not"},
    {"enable_jit_checkpoint", kAny, "a signal saves a checkpoint in any case"},
    {"save_safetensors", "true:", "weights are written as safetensors"},
    {"restore_callback_states_from_checkpoint", kAny, "a resumed run has all of its state"},
    {"push_to_hub hub_always_push", kOff, kNoHub},
    {"hub_model_id hub_strategy hub_token hub_private_repo hub_revision push_to_hub_model_id "
     "push_to_hub_token push_to_hub_organization",
     kAny, kNoHub},
    // Machine.
    {"bf16_full_eval fp16_full_eval", kAny, "an evaluation computes as the training does"},
    {"use_cpu no_cuda", "true: --device=cpu; false:", "--device says what computes"},
    {"use_mps_device", kOff, kNoCard},
    {"torch_compile torch_compile_backend torch_compile_mode torchdynamo jit_mode_eval use_ipex "
     "torch_empty_cache_steps use_cache gradient_checkpointing_kwargs "
     "activation_checkpointing_kwargs fp16_backend half_precision_backend fp16_opt_level",
     kAny, kNoTorch},
    {"activation_offloading", kAny, kMemoryOnly},
    {"full_determinism", kAny,
     "\"communication_order\": \"canonical\" in --deepspeed_config FILE gives equal bits"},
    {"auto_find_batch_size", kAny,
     "what does not fit is refused before the first step, with what does; --plan says it, too"},
    {"accelerator_config parallelism_config", "",
     "flags and --deepspeed_config FILE say what it holds; leave it out"},
    {"ddp_timeout", kAny, "--timeout_s limits each wait for another rank"},
    {"ddp_backend", kAny,
     "--device says it: GPUs exchange by NCCL, CPUs by shared memory and messages"},
    {"ddp_find_unused_parameters ddp_bucket_cap_mb ddp_broadcast_buffers ddp_static_graph "
     "ignore_bias_buffers",
     kAny, kNoTorch},
    {"fsdp", ": ; false:; *: !",
     "weights are sharded by zero_optimization.stage 3 in --deepspeed_config FILE, which changes "
     "no "
     "number"},
    {"fsdp_config fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap", kAny,
     "zero_optimization in --deepspeed_config FILE says how weights are sharded"},
    {"debug", kAny,
     "a loss, gradient or weight that is not finite is named in any case; --trace shows what ranks "
     "do"},
    {"mp_parameters ray_scope tpu_num_cores tpu_metrics_debug xpu_backend past_index "
     "use_legacy_prediction_loop dispatch_batches split_batches",
     kAny, kNoTorch},
    // Models.
    {"attn_implementation", kAny, "attention is always exact flash attention"},
    {"low_cpu_mem_usage", kAny, "weights are read piece by piece"},
    {"use_fast_tokenizer", kAny, "tokenizers of Hugging Face are read by fmengine's own code"},
    {"trust_remote_code", kAny, "no code of a model is run"},
    {"model_revision", "main:", kNoDownload, "init_ckpt"},
    {"token use_auth_token", kAny, kNoDownload},
    {"model_type", "", "use --model_config FILE, whose model_type says it",
     "init_ckpt model_config"},
    {"model", "", "use --init_ckpt"},
    {"env", "", "set variables of the environment in the shell"},
    {"batch_size", "",
     "use --per_device_train_batch_size for the rows of a rank, or train_batch_size in "
     "--deepspeed_config FILE for those of a step"},
    {"sample_packing", "", "use --packing best_fit --document_attention"},
    {"num_gpus nproc_per_node", "", "start as many ranks, with mpirun -np N or torchrun"},
};

}  // namespace

std::span<const ForeignKey> trainer_keys() { return kKeys; }

}  // namespace fm::cli
