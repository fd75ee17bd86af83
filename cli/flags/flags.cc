#include "cli/flags/flags.h"

#include <limits>
#include <type_traits>

#include "cli/flags/flag_values.h"
#include "core/text.h"
#include "pipeline/schedules/schedules.h"

namespace fm::cli {
namespace {

using O = engine::TrainOptions;

// The value as it is becomes this field; a number has these limits, and those of its type.
template <auto kField, std::int64_t kLeast = 0,
          std::int64_t kMost = std::numeric_limits<std::int64_t>::max()>
void into(const FlagValues& flags, const char* name, O& options) {
  using T = std::remove_reference_t<decltype(options.*kField)>;
  if constexpr (std::is_same_v<T, std::string>) {
    options.*kField = flags.text(name);
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    options.*kField = flags.list(name);
  } else if constexpr (std::is_same_v<T, bool>) {
    options.*kField = flags.flag(name);
  } else if constexpr (std::is_same_v<T, int>) {
    options.*kField = flags.small(name, static_cast<int>(kLeast));
  } else {
    options.*kField = static_cast<T>(flags.integer(name, kLeast, kMost));
  }
}

constexpr auto kBool = FlagKind::kBool;
constexpr auto kInt = FlagKind::kInt;
constexpr auto kText = FlagKind::kText;
constexpr auto kList = FlagKind::kList;

constexpr const char* kModel = "Model";
constexpr const char* kData = "Data";
constexpr const char* kLength = "Length and rhythm";
constexpr const char* kTrainer = "Hugging Face's Trainer (where the JSON says \"auto\" or nothing)";
constexpr const char* kLayout = "Layout and numbers";
constexpr const char* kOutput = "Output and resume";
constexpr const char* kLook = "Diagnosis";

std::string schedule_names() {
  std::vector<std::string> names;
  for (const pipeline::ScheduleRow& row : pipeline::all_schedules()) names.emplace_back(row.name);
  return core::join(names, ", ");
}

constexpr FlagRow kRows[] = {
    {"config", kText, "", kModel,
     "YAML or JSON file of flags, also one of Trainer and TRL, axolotl, LLaMA-Factory; flags of "
     "the command line win"},
    {"init_ckpt", kText, "", kModel,
     "Hugging Face folder: config.json, safetensors or pytorch_model.bin, tokenizer files"},
    {"model_config", kText, "", kModel, "Hugging Face config.json; weights start random",
     into<&O::model_config>},
    {"pretrain", kBool, "false", kModel, "take only the config of --init_ckpt, random weights",
     into<&O::pretrain>},
    {"train", kText, "", kModel,
     "train only parameters whose name this regular expression finds; the others are frozen",
     into<&O::train>},
    {"freeze", kText, "", kModel, "freeze parameters whose name this regular expression finds",
     into<&O::freeze>},
    {"lora_r", kInt, "", kModel,
     "train low-rank adapters of this rank (LoRA) beside frozen weights"},
    {"lora_alpha", kText, "8", kModel, "adapters are scaled by lora_alpha / lora_r"},
    {"lora_dropout", kText, "0", kModel, "of what adapters read"},
    {"lora_target_modules", kList, "", kModel,
     "linear layers with adapters, by the last parts of their names; all-linear; else peft's"},
    {"use_rslora", kBool, "false", kModel, "scale by lora_alpha / sqrt(lora_r) instead"},
    {"use_peft", kBool, "", kModel,
     "TRL's: false leaves adapters out, whatever flags of LoRA say; true trains some"},
    {"modules_to_save", kList, "", kModel, "modules that are trained whole beside adapters"},
    {"trainable_token_indices", kText, "", kModel,
     "ids whose rows of the embedding and the head are trained beside adapters, as 400,401; else "
     "those of --add_tokens"},
    {"adapter", kText, "", kModel, "PEFT folder: the adapters to begin with, and what they are"},
    {"data_path", kList, "", kData,
     "training data: files, folders, patterns; or WEIGHT PATH WEIGHT PATH ... for a mixture",
     into<&O::data_path>},
    {"data_format", kText, "auto", kData,
     "auto (by name and first bytes), jsonl (text or input_ids; also .gz, .zst), text, csv, tsv, "
     "parquet, arrow, tokens (or tokens_i32; flat, .npy, llm.c), megatron, mds"},
    {"columns", kList, "", kData,
     "what columns of rows mean, where their names are others: question=prompt,answer=completion"},
    {"sample_by", kText, "line", kData,
     "what of a .txt file is a document: line, paragraph (empty lines between them), document (the "
     "whole file)"},
    {"token_dtype", kText, "auto", kData,
     "of the ids in a token file: auto (by its bytes), uint16, int32, int64"},
    {"shuffle_windows", kBool, "false", kData,
     "shuffle the rows of flat token files in each epoch; else they come in file order",
     into<&O::shuffle_windows>},
    {"packing", kText, "", kData,
     "concat (documents joined, cut into rows), best_fit (whole documents side by side), none "
     "(one per row; or one_document, FMEngine's word); else best_fit for chats and other answers, "
     "concat for text and ids"},
    {"document_attention", kBool, "", kData,
     "attention and positions stay inside a document of a row; also in evaluation; else true where "
     "best_fit packs answers"},
    {"text_field", kText, "text", kData,
     "field of a JSONL line that holds the text; given, it comes before chats",
     into<&O::text_field>},
    {"tokenizer", kText, "", kData,
     "folder with tokenizer.json, tokenizer.model, or vocab.json and merges.txt, for text; else "
     "that of --init_ckpt, else bytes",
     into<&O::tokenizer>},
    {"chat_template", kText, "", kData, "Jinja file instead of the folder's chat template",
     into<&O::chat_template>},
    {"add_tokens", kText, "", kData,
     "special tokens that the tokenizer shall have, as <|im_start|>,<|im_end|> or a JSON list; new "
     "ones get rows of the embedding and the head, which begin as the mean of the others"},
    {"eos_token", kText, "", kData,
     "the token that ends a text, instead of the tokenizer's, as <|im_end|>", into<&O::eos_token>},
    {"train_on_inputs", kBool, "false", kData,
     "train on prompts and all turns; else on completions and the assistant's answers",
     into<&O::train_on_inputs>},
    {"assistant_only_loss", kBool, "", kData,
     "of conversations alone: true trains the assistant's answers, false all turns"},
    {"completion_only_loss", kBool, "", kData,
     "of prompts with completions alone: true trains the completions, false both"},
    {"cache_dir", kText, "", kData, "where tokens of text are kept; else in OUTPUT_DIR/tokens",
     into<&O::cache_dir>},
    {"max_seq_len", kInt, "", kData,
     "tokens per row; else 1024, or less where the model's or its tokenizer's length is (128 for "
     "text and ids with --model_config)"},
    {"allow_repeat", kBool, "false", kData,
     "train on fewer samples than a step takes, some of them more than once in it",
     into<&O::allow_repeat>},
    {"seed", kInt, "3407", kData,
     "of the initial weights and the order of JSONL rows and shuffled windows", into<&O::seed>},
    {"skip_bad_lines", kInt, "0", kData, "leave out up to N lines of JSONL that are no documents",
     into<&O::skip_bad_lines>},
    {"eval_data_path", kList, "", kData,
     "evaluation data, as --data_path; without it and a split nothing is evaluated",
     into<&O::eval_data_path>},
    {"split", kText, "", kData,
     "shares of --data_path for training, evaluation and neither: 949,50,1"},
    {"validation_split", kText, "", kData, "share of --data_path for evaluation: 0.05"},
    {"shuffle_split", kBool, "true", kData,
     "documents of a split are chosen by --seed; false: the first ones, then the next ones"},
    {"eval_batches", kInt, "0", kData, "steps' worth of samples per evaluation; 0: all",
     into<&O::eval_batches>},
    {"max_train_samples", kInt, "", kData,
     "train on the first N documents of each --data_path, behind a split"},
    {"max_eval_samples", kInt, "", kData, "the same of the evaluation data"},
    {"train_steps", kInt, "100", kLength, "optimizer steps"},
    {"eval_only", kBool, "false", kLength,
     "print loss and perplexity of the evaluation data for the checkpoint of --output_dir, else "
     "--init_ckpt; train and save nothing",
     into<&O::eval_only>},
    {"num_train_epochs", kText, "", kLength,
     "passes over the training data instead; where --max_steps is given, that counts"},
    {"eval_steps", kText, "100", kLength,
     "evaluate every N steps (needs --eval_data_path), below 1 a share of all; 0: at the end only"},
    {"save_steps", kText, "100", kLength,
     "save a checkpoint every N steps, below 1 a share of all; 0: at the end only"},
    {"save_strategy", kText, "steps", kLength,
     "steps, epoch, best (when an evaluation is the best so far), or no: neither checkpoints nor "
     "an export, but on SIGTERM, SIGINT, SIGUSR1"},
    {"save_async", kBool, "true", kLength,
     "write checkpoints from a copy of the state, where memory has room for it, while the next "
     "steps run; false: steps wait",
     into<&O::save_async>},
    {"log_steps", kText, "1", kLength,
     "print a line every N steps, below 1 a share of all; metrics.jsonl has all"},
    {"log_phases", kBool, "false", kLength,
     "with every line, where the time of the step went; else with every tenth",
     into<&O::log_phases>},
    {"deepspeed_config", kText, "", kLayout, "DeepSpeed JSON: a path, or url-safe base64 of it"},
    {"lenient", kBool, "false", kLayout,
     "an unknown key of the JSON is a note, also where DeepSpeed refuses it"},
    {"precision", kText, "", kLayout, "fp32, bf16 or fp16: overrides the JSON"},
    {"pipe_parallel_size", kInt, "1", kLayout, "pipe ranks; the other ranks are data ranks",
     into<&O::pipe_parallel_size, 1>},
    {"model_parallel_size", kInt, "1", kLayout,
     "tensor-parallel ranks: each has a part of every matrix", into<&O::model_parallel_size, 1>},
    {"megatron_sequence_parallel", kBool, "false", kLayout,
     "of the tensor-parallel ranks each has some tokens between products",
     into<&O::megatron_sequence_parallel>},
    {"sequence_parallel_size", kInt, "1", kLayout,
     "ranks that share the tokens of every row; also a key of the JSON",
     into<&O::sequence_parallel_size, 1>},
    {"sequence_parallel", kText, "", kLayout,
     "ulysses (ranks exchange heads), ring (keys and values go round), or usp (both); default: "
     "ulysses where there are heads for all ranks, else ring"},
    {"ulysses_degree", kInt, "0", kLayout,
     "with usp: ranks that exchange heads; 0: the smallest divisor of sequence ranks above 1",
     into<&O::ulysses_degree>},
    {"schedule", kText, "1f1b", kLayout, "pipeline schedule: auto, FILE.csv, ", nullptr,
     schedule_names},
    {"virtual_stages", kInt, "0", kLayout,
     "model chunks per pipe rank; 0: 2 where the schedule has several, else 1",
     into<&O::virtual_stages>},
    {"activation_limit", kText, "", kLayout,
     "micro-batches that a pipe rank may keep; else those of the schedule: p of zb-1p, 2p of "
     "zb-2p"},
    {"post_validation", kBool, "false", kLayout,
     "pipe ranks do not wait for the gradient norm at a step's end; a wrong update is undone"},
    {"partition_method", kText, "cost", kLayout,
     "cut of the model: cost, uniform, parameters, type:REGEX, or layers per chunk as 3,2"},
    {"offload_optimizer", kText, "", kLayout,
     "where moments and masters sleep between updates: none, cpu (host memory beside a device), "
     "nvme; also a block of the JSON"},
    {"tile_rows", kInt, "0", kLayout,
     "rows of a tile of the embedding's and the head's matrix where parameters sleep on NVMe, a "
     "multiple of 4096; 0: about as large as a block",
     [](const FlagValues& flags, const char* name, O& options) {
       options.offload.tile_rows = flags.integer(name, 0, std::int64_t{1} << 32);
     }},
    {"offload_param", kText, "", kLayout,
     "where ZeRO 3 keeps slices of parameters: none, cpu, nvme; also a block of the JSON"},
    {"nvme_path", kText, "", kLayout,
     "folders of --offload_optimizer nvme and --offload_param nvme, one per drive, separated by "
     "commas"},
    {"no_decay", kText, "", kLayout,
     "kinds without weight decay, e.g. norm,bias,embedding; none: all decay, as with an optimizer "
     "of the JSON; else those of the Trainer, norm,bias"},
    {"loss_reduction", kText, "token", kLayout,
     "token (mean over the step's tokens) or mean_of_means (DeepSpeed's)"},
    {"threads", kInt, "0", kLayout,
     "threads per rank; 0: OMP_NUM_THREADS, else the rank's part of the host's cores"},
    {"device", kText, "cpu", kLayout,
     "what computes: cpu; cuda, a GPU of NVIDIA's for each rank, or cuda:N, that one; auto, GPUs "
     "where every rank has one, else cpu; fake, which tries on this CPU how the engine serves a "
     "device: slowly, with the same results"},
    {"share_device", kBool, "false", kLayout,
     "ranks of one host may compute on the same GPU, and talk through the host's memory: slowly"},
    {"device_seed", kInt, "1", kLayout, "of the times at which the fake device's queues run"},
    {"timeout_s", kInt, "600", kLayout, "limit of one wait for another rank, or a drive"},
    {"hang_s", kInt, "10", kLayout,
     "how long a rank may be stopped, or a step's instruction not move while others wait for it; "
     "at least 10 steps; 0: until --timeout_s"},
    {"shm", kBool, "true", kLayout,
     "ranks of one host share memory: parameters once, sums without copies",
     into<&O::shared_memory>},
    {"interface", kText, "", kLayout,
     "network interfaces, separated by commas, of which ranks of several hosts use the first that "
     "is there: ib0,eth1; FME_INTERFACE alike",
     into<&O::interfaces>},
    {"blackbox", kBool, "true", kOutput,
     "keep each rank's last operations in OUTPUT_DIR/blackbox, for `fmengine blackbox`",
     into<&O::blackbox>},
    {"learning_rate", kText, "", kTrainer,
     "for \"auto\", 5e-5; must be the JSON's number if it has one"},
    {"weight_decay", kText, "", kTrainer, "for \"auto\", 0"},
    {"adam_beta1", kText, "", kTrainer, "for \"auto\", 0.9"},
    {"adam_beta2", kText, "", kTrainer, "for \"auto\", 0.999"},
    {"adam_epsilon", kText, "", kTrainer, "for \"auto\", 1e-8"},
    {"max_grad_norm", kText, "", kTrainer, "for \"auto\", 1: gradient_clipping"},
    {"warmup_steps", kText, "", kTrainer, "for \"auto\", 0; below 1 a share of the steps"},
    {"warmup_ratio", kText, "", kTrainer, "the same as a share of the steps"},
    {"lr_scheduler_type", kText, "linear", kTrainer,
     "where the JSON has no scheduler: linear, cosine, cosine_with_restarts, cosine_with_min_lr, "
     "polynomial, constant, constant_with_warmup, inverse_sqrt, warmup_stable_decay"},
    {"lr_scheduler_kwargs", kText, "", kTrainer, "its parameters, as {\"num_cycles\": 2}"},
    {"per_device_train_batch_size", kInt, "", kTrainer,
     "for \"auto\", 8: train_micro_batch_size_per_gpu"},
    {"gradient_accumulation_steps", kInt, "", kTrainer, "for \"auto\", 1"},
    {"bf16", kBool, "", kTrainer, "for \"auto\", false: bf16.enabled"},
    {"fp16", kBool, "", kTrainer, "for \"auto\", false: fp16.enabled"},
    {"gradient_checkpointing", kBool, "false", kTrainer,
     "recompute activations, as \"activation_checkpointing\": {}"},
    {"eval_strategy", kText, "steps", kTrainer, "steps, epoch, or no: as without --eval_data_path"},
    {"load_best_model_at_end", kBool, "false", kTrainer,
     "save the model of every best evaluation, and export the best in the end",
     into<&O::load_best_model>},
    {"metric_for_best_model", kText, "loss", kTrainer, "loss (or eval_loss): there is no other"},
    {"greater_is_better", kBool, "false", kTrainer, "false: a loss is better when it is less"},
    {"early_stopping_patience", kInt, "0", kTrainer,
     "stop after so many evaluations that are no better; 0: never",
     into<&O::early_stopping_patience>},
    {"early_stopping_threshold", kText, "0", kTrainer, "how much less a better loss must be"},
    {"report_to", kList, "", kTrainer,
     "tensorboard, csv, all or none; wandb and others: event files to import there"},
    {"logging_dir", kText, "", kTrainer, "of --report_to tensorboard; runs/ in --output_dir"},
    {"output_dir", kText, "./output", kOutput, "checkpoints, metrics.jsonl, exported model"},
    {"resume", kText, "auto", kOutput, "auto, must, never, or the path of a checkpoint"},
    {"grace_s", kInt, "", kOutput,
     "seconds between SIGTERM and SIGKILL: a save that takes longer is not begun then; 0: no end; "
     "else what mpirun, torchrun, DeepSpeed's launcher, Slurm or Kubernetes are known to give"},
    {"keep_last", kInt, "0", kOutput,
     "newest checkpoints to keep, and the newest that a later step has proven good; 0: all",
     into<&O::keep_last>},
    {"export_dtype", kText, "as_init", kOutput,
     "of the weights in OUTPUT_DIR/hf: fp32, bf16, fp16, or as_init (as --init_ckpt has them, "
     "random "
     "ones fp32)"},
    {"prometheus_file", kText, "", kOutput,
     "FILE.prom: newest values for node_exporter's textfile collector"},
    {"dry_run", kBool, "false", kOutput,
     "print the plan and train, but write nothing but prepared tokens (--plan starts nothing)",
     into<&O::dry_run>},
    {"project_name", kText, "fmengine", kOutput, "shown in the banner (no wandb yet)",
     into<&O::project_name>},
    {"experiment_name", kText, "experiment", kOutput, "shown in the banner (no wandb yet)",
     into<&O::experiment_name>},
    {"plan", kBool, "false", kLook, "print what a run would do and need; start nothing"},
    {"plan_ranks", kInt, "0", kLook, "ranks to plan for; 0: those that were started"},
    {"svg", kText, "", kLook,
     "with --plan: draw the timeline of all pipe ranks into this file; with --trace FILE of a run "
     "beside it"},
    {"host_memory", kText, "", kLook, "for --plan: memory of each host, as 64G; else this one's"},
    {"host_cores", kInt, "0", kLook,
     "for --plan: cores of each host, to say how long a run takes; 0: nothing is said"},
    {"device_memory", kText, "", kLook,
     "for --plan --device cuda: memory of each rank's GPU, as 80G; else this machine's, or that of "
     "--device_card"},
    {"device_card", kText, "", kLook,
     "for --plan --device cuda: a name such as H100 or A100 40GB, to say how long a run takes"},
    {"nvme_rate", kText, "", kLook,
     "for --plan: GB/s that the drives of a host read and write together, as 6.5,4; else they are "
     "measured where the folders can be written to"},
    {"nvme_endurance", kText, "", kLook,
     "for --plan: TB that the drives of a host may be written in their life (TBW)"},
    {"ranks_per_host", kInt, "8", kLook, "for --plan: ranks that share one host's memory",
     into<&O::ranks_per_host, 1>},
    {"plan_times", kText, "", kLook,
     "T_F,T_I,T_W,T_comm of one micro-batch on one pipe rank, or the FILE of an earlier --trace: "
     "what zb-1p, zb-2p, zb-v-auto, auto, the order of messages and --plan go by instead of FLOPs, "
     "and with a FILE the cost partition"},
    {"micros", kInt, "0", kLook,
     "for --plan --plan_times without a model: micro-batches of the schedule to study"},
    {"csv", kText, "", kLook, "with --plan: write the schedule to this file, as PyTorch's CSV"},
    {"csv_messages", kText, "", kLook, "the same with sends and receives"},
    {"print_config", kBool, "false", kLook,
     "print every value of the DeepSpeed configuration and where it is from; start nothing"},
    {"json", kBool, "false", kLook, "with --plan, --print_config: as one JSON object"},
    {"report", kBool, "false", kLook, "print CPU, libraries, threads, memory"},
    {"where", kBool, "false", kLook,
     "print which engine started this rank, and where its ranks meet; start nothing"},
    {"dump_gradients", kText, "", kLook,
     "write the gradients of the first step to this safetensors file, then stop",
     into<&O::dump_gradients>},
    {"trace", kText, "", kLook,
     "write a Chrome trace (Perfetto) of every instruction and kernel of some steps, all ranks",
     into<&O::trace>},
    {"trace_steps", kText, "3-5", kLook, "steps of --trace, counted from this start: A-B, or A"},
    {"local_rank", kInt, "", kLaunchFlags, "LOCAL_RANK"},
    {"rank", kInt, "", kLaunchFlags, "RANK"},
    {"world_size", kInt, "", kLaunchFlags, "WORLD_SIZE"},
    {"use_flash_attn", kBool, "false", kCompatible, "attention is always flash attention"},
    {"use_fused_ops", kBool, "false", kCompatible, "there is one set of kernels"},
    {"use_deepspeed", kBool, "true", kCompatible, "the engine is always on"},
    {"deepspeed", kBool, "true", kCompatible,
     "the engine is always on; --deepspeed FILE is --deepspeed_config FILE"},
    {"res_dir", kText, "", kCompatible, "FMEngine does not use it either"},
    {"num_workers", kInt, "1", kCompatible, "data is read without worker processes"},
    {"tf32", kBool, "false", kCompatible, "products of fp32 do not round what they read"},
    {"window_size", kInt, "0", kCompatible, "only 0: the model says its windows"},
    {"attention", kText, "own", kCompatible, "only own; else refused"},
};

constexpr VariableRow kVariables[] = {
    {"FME_SIMD", "instruction set of our kernels, not above the CPU's: baseline, avx2, avx512"},
    {"FME_GEMM", "matrix products: amx (attention's too), packed, mixed, onednn; tuned on GPUs"},
    {"FME_ATTENTION", "on GPUs: own, our kernels; fast, cuDNN's in an order of sums that may vary"},
    {"FME_CUDA_LIBS", "folders where NVIDIA's libraries are sought first, separated by colons"},
    {"FME_DEVICE_CHECK", "1: waits for every kernel of a GPU, fills what is free with NaN"},
    {"FME_HOST", "a name; ranks with different names count as ranks of different hosts"},
    {"FME_JOB_ID", "a name of the job, the same for all ranks started by hand"},
    {"FME_JOB_TOKEN", "a secret of all ranks, 32 hexadecimal digits or more: it keeps others out"},
    {"FME_JOB_TOKEN_FILE", "a file with it that its owner alone may read"},
    {"FME_INTERFACE", "as --interface, which wins"},
    {"FME_MASTER_PORT", "a port; where ranks meet, whatever the launcher says"},
    {"FMENGINE_MASTER_PORT", "the same; FME_MASTER_PORT wins"},
    {"FME_RESTART_COUNT", "of which start ranks by hand are, the same for all of them"},
    {"FME_LAUNCH_ID", "of the launcher that starts this job again, in all of its starts the same"},
    {"OMP_NUM_THREADS", "threads per rank; --threads wins"},
};

}  // namespace

std::span<const FlagRow> train_flags() { return kRows; }

std::span<const VariableRow> train_variables() { return kVariables; }

}  // namespace fm::cli
