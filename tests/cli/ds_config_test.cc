// From DeepSpeed JSON to typed options; expected values are DeepSpeed's documented ones.
#include "cli/deepspeed/ds_config.h"

#include "tests/cli/read_ds.h"

namespace fm::cli {
namespace {

using engine::TrainOptions;

TEST(DsConfig, HonouredKeysReachTheOptions) {
  const TrainOptions options = read(R"({
    "train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8,
    "gradient_clipping": 0.5, "communication_order": "canonical",
    "zero_optimization": {"stage": 3}, "activation_checkpointing": {},
    "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "betas": [0.8, 0.7], "eps": 1e-6,
                  "weight_decay": 0.1, "bias_correction": false}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 1e-6, "warmup_max_lr": 2e-4,
                  "warmup_num_steps": 7, "warmup_type": "linear"}}})");
  EXPECT_EQ(options.batch.train_batch, 64);
  EXPECT_EQ(options.batch.micro_batch, 4);
  EXPECT_EQ(options.batch.accumulation, 8);
  EXPECT_EQ(options.gradient_clipping, 0.5);
  EXPECT_EQ(options.sum_order, core::SumOrder::kCanonical);
  EXPECT_EQ(options.zero_stage, 3);
  EXPECT_TRUE(options.recompute);
  EXPECT_EQ(options.optimizer.lr, 3e-4);
  EXPECT_EQ(options.optimizer.betas[0], 0.8);
  EXPECT_EQ(options.optimizer.betas[1], 0.7);
  EXPECT_EQ(options.optimizer.eps, 1e-6);
  EXPECT_EQ(options.optimizer.weight_decay, 0.1);
  EXPECT_FALSE(options.optimizer.bias_correction);
  EXPECT_EQ(options.scheduler.rule, &optim::kWarmupLr);
  EXPECT_EQ(options.scheduler.warmup_min_lr, 1e-6);
  EXPECT_EQ(options.scheduler.warmup_max_lr, 2e-4);
  EXPECT_EQ(options.scheduler.warmup_num_steps, 7);
  EXPECT_EQ(options.scheduler.warmup_type, engine::WarmupType::kLinear);
  const std::string only =
      "recomputation is on because \"activation_checkpointing\" is there, whatever it holds; "
      "remove the block to turn it off, or give --gradient_checkpointing false (t.json:4)";
  EXPECT_EQ(options.notes, std::vector{only});
}

TEST(DsConfig, DefaultsAreDeepSpeeds) {
  const TrainOptions options = read("{train_batch_size: 8, optimizer: {type: \"AdamW\"}}");
  EXPECT_EQ(options.gradient_clipping, 1.0);
  EXPECT_EQ(options.zero_stage, 0);
  EXPECT_FALSE(options.recompute);
  EXPECT_EQ(options.sum_order, core::SumOrder::kFast);
  EXPECT_EQ(options.optimizer.lr, 1e-3);
  EXPECT_EQ(options.optimizer.betas[1], 0.999);
  EXPECT_EQ(options.optimizer.weight_decay, 0.0);
  EXPECT_EQ(options.scheduler.rule, &optim::kConstant);
  EXPECT_FALSE(options.batch.micro_batch.has_value());
}

TEST(DsConfig, NumbersAreAsLaxAsPydantic) {
  EXPECT_EQ(read("{train_batch_size: 3.2e1}").batch.train_batch, 32);
  EXPECT_EQ(read("{train_batch_size: \"12\"}").batch.train_batch, 12);
  const std::string optimizer = ", optimizer: {type: \"Adam\"}}";
  EXPECT_EQ(read("{zero_optimization: {stage: true}" + optimizer).zero_stage, 1);
  EXPECT_TRUE(read("{optimizer: {type: \"AdamW\", params: {bias_correction: \"yes\"}}}")
                  .optimizer.bias_correction);
  EXPECT_EQ(refusal("{zero_optimization: {reduce_bucket_size: 1e18}}"), "accepted");
  EXPECT_TRUE(holds(refusal("{zero_optimization: {reduce_bucket_size: 1e19}}"),
                    "1e19, which is beyond 64 bits)"));
  EXPECT_EQ(refusal("{zero_optimization: {reduce_bucket_size: 5e8, overlap_comm: \"off\"}}"),
            "accepted");
  const std::string said = refusal("{\nzero_optimization: {\nreduce_bucket_size: 2.5\n}\n}");
  EXPECT_TRUE(holds(said, "zero_optimization.reduce_bucket_size must be a whole number"));
  EXPECT_TRUE(holds(said, "t.json:3"));
  EXPECT_TRUE(holds(said, "fractional part"));
}

TEST(DsConfig, WrongTypesAndValuesNameTheKeyAndTheLine) {
  EXPECT_TRUE(holds(refusal("{zero_optimization: {stage: 4\n}}"), "must be 0, 1, 2 or 3"));
  EXPECT_TRUE(holds(refusal("{gradient_clipping: \"much\"}"), "must be a number"));
  EXPECT_TRUE(holds(refusal("{gradient_clipping: -1}"), "must not be negative"));
  EXPECT_TRUE(holds(refusal("{fp16: true}"), "fp16 must be a block"));
  EXPECT_TRUE(holds(refusal("{log_level: \"loud\"}"), "one of \"debug\", \"info\""));
  EXPECT_TRUE(holds(refusal("{communication_order: \"slow\"}"), "one of \"fast\", \"canonical\""));
  EXPECT_TRUE(holds(refusal("{zero_optimization: {offload_param: {device: \"gpu\"}}}"), "\"cpu\""));
  EXPECT_TRUE(holds(refusal("[1, 2]"), "must be one object"));
}

TEST(DsConfig, AnUnknownKeyInsideAModelledBlockIsRefusedWithTheNearest) {
  const std::string said = refusal("{\n\"zero_optimization\": {\n\"stge\": 2\n}\n}");
  EXPECT_TRUE(holds(said, "\"stge\" is not a key of zero_optimization; did you mean \"stage\"?"));
  EXPECT_TRUE(holds(said, "t.json:3"));
  EXPECT_TRUE(holds(refusal("{bf16: {enabld: true}}"), "did you mean \"enabled\"?"));
  EXPECT_TRUE(holds(refusal("{zero_optimization: {offload_param: {devise: \"cpu\"}}}"),
                    "is not a key of zero_optimization.offload_param; did you mean \"device\"?"));
}

TEST(DsConfig, AMisspeltKeyIsRefusedWhereDeepSpeedWouldDropIt) {
  EXPECT_TRUE(holds(refusal("{train_batch_size: 8,\n\"gradient_acumulation_steps\": 2}"),
                    "\"gradient_acumulation_steps\" is not a key of the top level; did you mean "
                    "\"gradient_accumulation_steps\"? (it would have no effect"));
  EXPECT_TRUE(holds(refusal("{zero_optimisation: {stage: 2}}"), "mean \"zero_optimization\"?"));
  EXPECT_TRUE(holds(refusal("{gradient_cliping: 0.5}"), "mean \"gradient_clipping\"?"));
  EXPECT_TRUE(holds(refusal("{Optimizer: {type: \"SGD\"}}"), "mean \"optimizer\"?"));
  EXPECT_TRUE(holds(refusal("{aio: {queue_deph: 2}}"), "did you mean \"queue_depth\"?"));
  EXPECT_TRUE(holds(refusal("{optimizer: {type: \"AdamW\", parms: {lr: 1\n}}}"),
                    "\"parms\" is not a key of optimizer; did you mean \"params\"?"));
}

// Of other programs, or of nobody: DeepSpeed does not look at them.
TEST(DsConfig, AForeignKeyIsNoted) {
  for (const char* key : {"comment", "_note", "seed", "eval_batch_size", "valid_batch_size",
                          "model", "gradient_accumulation_dtype", "fp32_allreduce"}) {
    const std::string said = notes(std::string("{train_batch_size: 8, \"") + key + "\": 2}");
    EXPECT_TRUE(holds(said, key));
  }
  EXPECT_TRUE(
      holds(notes("{\nevalbatch: 2}"), "unknown key \"evalbatch\" has no effect (t.json:2)"));
}

TEST(DsConfig, AKeyInTheWrongBlockIsToldItsPlace) {
  EXPECT_TRUE(holds(notes("{activation_checkpoint_interval: 2}"),
                    "has no effect; it belongs to pipeline (t.json:1)"));
  EXPECT_TRUE(holds(notes("{stage: 2}"), "it belongs to zero_optimization"));
  EXPECT_EQ(notes("{enabled: true}").find("belongs"), std::string::npos);  // to many
}

// DeepSpeed looks for such a name nowhere.
TEST(DsConfig, ANameWithADotIsNoPath) {
  EXPECT_TRUE(
      holds(refusal("{\n\"zero_optimization.stage\": 3}"),
            "\"zero_optimization.stage\" is one name with a dot in it, which DeepSpeed does "
            "not read; write \"zero_optimization\": {\"stage\": ...}"));
  EXPECT_TRUE(holds(refusal("{optimizer: {type: \"AdamW\", \"params.lr\": 1\n}}"),
                    "write \"params\": {\"lr\": ...}"));
  EXPECT_TRUE(holds(refusal("{zero_optimization: {\"offload_param.device\": \"cpu\"}}"),
                    "write \"offload_param\": {\"device\": ...}"));
  EXPECT_TRUE(holds(notes("{\"my.note\": 3}"), "unknown key \"my.note\" has no effect"));
}

TEST(DsConfig, EveryProblemHasALineOfOneMessage) {
  const std::string said = refusal(R"({
    "amp": {"enabled": true},
    "fp16": {"enabled": true, "fp16_master_weights_and_grads": true},
    "zero_optimization": {"stage": 3,
      "offload_optimizer": {"device": "cpu"},
      "zenflow": {"topk_ratio": 0.1}}})");
  EXPECT_TRUE(holds(said, "change 3 places:\n  t.json:2 amp: only fp32, bf16 and fp16 "));
  EXPECT_TRUE(holds(said, "--precision bf16, fp16 or fp32"));
  EXPECT_EQ(said.find("offload_optimizer"), std::string::npos) << said;
  EXPECT_TRUE(holds(said, "\n  t.json:6 zero_optimization.zenflow = {...}: "));
  EXPECT_TRUE(holds(said, "\n  t.json:3 fp16.fp16_master_weights_and_grads = true: master "));
}

// Of the walk over the keys, of types, of the readers behind them: in the order of the file.
TEST(DsConfig, ProblemsOfEveryKindAreFoundAtOnce) {
  const std::string said = refusal(R"({"gradient_clipping": -1,
    "train_batch_size": "many",
    "optimizer": {"type": "Adamm", "params": {"lr": 1e-3}},
    "zero_optimization": {"stge": 2},
    "fp16": {"enabled": true, "loss_scale_window": 0},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_step": 5}}})");
  EXPECT_TRUE(
      said.starts_with("t.json must hold only what fmengine can honour; change 6 places:\n"))
      << said;
  const std::vector<std::string> lines = core::split(said, '\n');
  ASSERT_EQ(lines.size(), 7U);
  for (std::size_t at = 1; at < lines.size(); ++at) {
    EXPECT_TRUE(lines[at].starts_with(core::concat("  t.json:", at, " "))) << lines[at];
  }
  EXPECT_TRUE(holds(lines[1], "gradient_clipping must not be negative; 0 turns it off (-1)"));
  EXPECT_TRUE(holds(lines[3], "Adamm"));
}

TEST(DsConfig, LenientReadersNoteUnknownKeys) {
  const char* const json = R"({"zero_optimization": {"stge": 2}, "gradient_cliping": 0.5})";
  engine::TrainOptions options;
  apply_ds_config({json, "t.json"}, {.unknown = Unknown::kNoted}, {}, options);
  const std::string notes = core::join(options.notes, "\n");
  EXPECT_TRUE(holds(notes, "unknown key \"zero_optimization.stge\" has no effect; did you mean"));
  EXPECT_TRUE(holds(notes, "unknown key \"gradient_cliping\" has no effect; did you mean"));
  EXPECT_TRUE(holds(refusal(json), "change 2 places"));
}

TEST(DsConfig, OffloadToTheCpuIsSaidToBeThereAlready) {
  for (const char* block :
       {"offload_optimizer: {device: \"cpu\"}", "cpu_offload: true",
        "offload_param: {device: \"CPU\", pin_memory: true}", "cpu_offload_param: true"}) {
    EXPECT_TRUE(holds(notes(std::string("{zero_optimization: {stage: 3, ") + block + "}}"),
                      "to cpu: on CPUs this state is in host memory already"))
        << block;
  }
}

TEST(DsConfig, WhatIsSwitchedOffIsAccepted) {
  EXPECT_EQ(refusal(R"({"bf16": {"enabled": false}, "fp16": {"enabled": false, "loss_scale": 3},
    "amp": {"enabled": false}, "data_types": {"grad_accum_dtype": "fp32"},
    "zero_optimization": {"stage": 0, "offload_optimizer": {"device": "none"},
                          "offload_param": null, "zenflow": null, "cpu_offload_param": null},
    "elasticity": {"enabled": false, "max_train_batch_size": 9}, "sequence_parallel_size": 1,
    "compression_training": {"weight_quantization": {"shared_parameters": {"enabled": false}}},
    "curriculum_learning": {"enabled": false}, "gradient_allreduce_op": "MEAN",
    "tensor_parallel": {"autotp_size": 1}, "eigenvalue": {"enabled": false}, "lora": {}})"),
            "accepted");
}

TEST(DsConfig, WhatWouldChangeResultsIsRefused) {
  for (const char* json :
       {"{amp: {enabled: true}}", "{torch_autocast: {enabled: true}}",
        "{lora: {r: 8, enabled: false}}", "{zero_optimization: {zenflow: {topk_ratio: 0.1}}}",
        "{elasticity: {enabled: true}}", "{curriculum_learning: {enabled: true}}",
        "{zero_optimization: {zero_quantized_gradients: true, stage: 2}}",
        "{zero_optimization: {legacy_stage1: true}}", "{data_efficiency: {enabled: true}}",
        "{gradient_allreduce_op: \"sum\"}", "{managed_gradient_accumulation: false}",
        "{sparse_attention: {mode: \"fixed\"}}",
        "{compression_training: {a: {shared_parameters: {enabled: true}}}}",
        "{quantize_training: {enabled: true}}"}) {
    EXPECT_TRUE(holds(refusal(json), "t.json:1 ")) << json;
  }
}

TEST(DsConfig, IgnoredKeysAreNotedOnceWithTheReason) {
  const std::string said = notes(R"({"prescale_gradients": true,
      "zero_optimization": {"reduce_bucket_size": 1000, "reduce_scatter": false},
      "progressive_layer_drop": {"enabled": true, "theta": 0.5, "gamma": 0.001}})");
  EXPECT_TRUE(holds(said, "no family here reads it"));
  EXPECT_TRUE(holds(said,
                    "ignored zero_optimization.reduce_bucket_size, "
                    "zero_optimization.reduce_scatter: bucket sizes"));
  EXPECT_TRUE(holds(said, "ignored prescale_gradients: it moves a division"));
  EXPECT_EQ(notes(R"({"prescale_gradients": false, "optimizer": {"type": "AdamW"},
      "zero_optimization": {"reduce_bucket_size": 5e8}})"),
            "");
}

TEST(DsConfig, OverlapAndPrefetchAreHonoured) {
  const auto of = [](const std::string& block) {
    return read("{\"optimizer\": {\"type\": \"AdamW\"}, \"zero_optimization\": {\"stage\": 3, " +
                block + "}}");
  };
  EXPECT_TRUE(of("\"overlap_comm\": null").overlap);
  EXPECT_FALSE(of("\"overlap_comm\": false").overlap);
  EXPECT_FALSE(of("\"overlap_comm\": true").prefetch_elements);
  EXPECT_EQ(of("\"stage3_prefetch_bucket_size\": 5e7").prefetch_elements, 50'000'000);
  EXPECT_EQ(of("\"prefetch_bucket_size\": 0").prefetch_elements, 0);
}

TEST(DsConfig, WhatIsIgnoredOfABlockThatIsOnIsNoted) {
  const std::string on = R"({"bf16": {"enabled": true, "check_grad_overflow": false}})";
  EXPECT_TRUE(holds(notes(on), "ignored bf16.check_grad_overflow: "));
  const std::string off = R"({"optimizer": {"type": "AdamW"},
                              "bf16": {"enabled": false, "check_grad_overflow": false}})";
  EXPECT_EQ(notes(off), "");
  const std::string unused = notes(R"({"nebula": {"enabled": true, "nebula_load_path": "x"}})");
  EXPECT_TRUE(holds(unused, "nebula.enabled"));
  EXPECT_EQ(unused.find("nebula_load_path"), std::string::npos) << unused;
}

TEST(DsConfig, NamesWithoutEffectAreKnownWhateverTheirValue) {
  EXPECT_TRUE(holds(refusal("{autotuning: {tuner_tipe: 1}}"), "did you mean \"tuner_type\"?"));
  EXPECT_TRUE(holds(refusal("{wandb: {teams: 1}}"), "did you mean \"team\"?"));
  EXPECT_TRUE(holds(notes("{aio: {queue_depth: 4}}"), "ignored aio.queue_depth: "));
}

// Off as a whole, and yet somebody who turns a curriculum on should hear that there is none.
TEST(DsConfig, ACurriculumThatIsOnIsNotedWhereverItIs) {
  EXPECT_TRUE(holds(notes("{data_efficiency: {data_sampling: {curriculum: {enabled: true}}}}"),
                    "ignored data_efficiency.data_sampling: "));
  EXPECT_EQ(notes(R"({"optimizer": {"type": "AdamW"},
                      "data_efficiency": {"data_sampling": {"enabled": false}}})"),
            "");
}

TEST(DsConfig, AutoIsTheDefaultAndSaysSo) {
  const std::string text = R"({"zero_optimization": {"stage": "auto"}, "bf16": {"enabled": "auto"},
      "gradient_clipping": "auto", "optimizer": {"type": "AdamW", "params": {"eps": "auto"}}})";
  EXPECT_EQ(read(text).zero_stage, 0);
  EXPECT_EQ(notes(text),
            "\"auto\" is filled in as by Hugging Face's Trainer: gradient_clipping 1, "
            "optimizer.params.eps 1e-08, bf16.enabled false\n"
            "no batch size in the configuration: train_micro_batch_size_per_gpu is 8, the "
            "Trainer's\n"
            "no scheduler in the configuration: linear to step 100 after 0 warm-up steps, as the "
            "Trainer (--lr_scheduler_type)\n"
            "\"auto\" keeps the default: zero_optimization.stage (0)");
}

TEST(DsConfig, AnAutomaticWarmupSaysHowShortItIs) {
  const std::string text =
      R"({"optimizer": {"type": "AdamW"}, "scheduler": {"type": "WarmupLR", "params": {
          "warmup_num_steps": "auto"}}})";
  EXPECT_TRUE(holds(notes(text), "scheduler.params.warmup_num_steps 1"));
}

TEST(DsConfig, ABlockThatIsOffGivesNoNotes) {
  EXPECT_EQ(notes(R"({"optimizer": {"type": "AdamW"},
      "flops_profiler": {"enabled": false, "profile_step": 10, "output_file": "x"}})"),
            "");
  EXPECT_TRUE(holds(notes("{nebula: {enabled: true}}"), "nebula.enabled"));
}

TEST(DsConfig, DeprecatedKeys) {
  EXPECT_TRUE(
      holds(notes("{optimizer: {type: \"AdamW\"}, zero_optimization: true}"), "is deprecated"));
  EXPECT_EQ(read("{optimizer: {type: \"AdamW\"}, zero_optimization: true}").zero_stage, 1);
  EXPECT_EQ(read("{zero_optimization: false}").zero_stage, 0);
  EXPECT_TRUE(holds(notes("{optimizer: {type: \"AdamW\"}, zero_optimization: true}"),
                    "use {\"stage\": 1}"));
  EXPECT_TRUE(holds(notes("{zero_optimization: false}"), "use {\"stage\": 0}"));
  EXPECT_TRUE(holds(
      refusal("{zero_optimization: {cpu_offload: true, offload_optimizer: {device: \"cpu\"}}}"),
      "Cannot provide deprecated parameter 'zero_optimization.cpu_offload' and replacing"));
}

TEST(DsConfig, BothNamesOfABlockThatIsOffAreNoConflict) {
  EXPECT_TRUE(holds(notes("{bf16: {enabled: false}, bfloat16: {enabled: false}}"),
                    "\"bfloat16\" is deprecated, use \"bf16\""));
  EXPECT_TRUE(holds(refusal("{bf16: {enabled: true}, bfloat16: {enabled: false}}"),
                    "Cannot provide deprecated parameter 'bfloat16'"));
  EXPECT_TRUE(holds(refusal("{bf16: {enabled: false}, bfloat16: {enabled: true}}"),
                    "Cannot provide deprecated parameter 'bfloat16'"));
}

TEST(DsConfig, AutoIsResolved) {
  TrainOptions options;
  options.train_steps = 500;
  apply_ds_config({R"({
    "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
    "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto",
                          "offload_optimizer": {"device": "none", "pin_memory": "auto"}},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto",
                                              "weight_decay": "auto"}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": "auto",
       "warmup_max_lr": "auto", "warmup_num_steps": "auto", "total_num_steps": "auto"}}})",
                   "t.json"},
                  {}, {}, options);
  EXPECT_EQ(options.batch.micro_batch, 8);
  EXPECT_FALSE(options.batch.train_batch.has_value());
  EXPECT_EQ(options.batch.accumulation, 1);
  EXPECT_EQ(options.gradient_clipping, 1.0);
  EXPECT_EQ(options.optimizer.lr, 5e-5);
  EXPECT_EQ(options.optimizer.betas[0], 0.9);
  EXPECT_EQ(options.scheduler.warmup_min_lr, 0.0);
  EXPECT_EQ(options.scheduler.warmup_max_lr, 5e-5);
  EXPECT_EQ(options.scheduler.total_num_steps, 500);
  EXPECT_EQ(options.scheduler.warmup_num_steps, 1);
}

}  // namespace
}  // namespace fm::cli
