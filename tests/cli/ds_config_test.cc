// From DeepSpeed JSON to typed options; expected values are DeepSpeed's documented ones.
#include "cli/ds_config.h"

#include "core/text.h"
#include "tests/cli/expect_refusal.h"

namespace fm::cli {
namespace {

using engine::OptimizerKind;
using engine::SchedulerKind;
using engine::TrainOptions;

TrainOptions read(const std::string& json, PrecisionFlag precision = PrecisionFlag::kFromJson) {
  TrainOptions options;
  apply_ds_config({json, "t.json"}, precision, options);
  return options;
}

std::string refusal(const std::string& json, PrecisionFlag precision = PrecisionFlag::kFromJson) {
  return refusal_of([&] { read(json, precision); });
}

std::string notes(const std::string& json, PrecisionFlag precision = PrecisionFlag::kFromJson) {
  return core::join(read(json, precision).notes, "\n");
}

TrainOptions with_optimizer(const std::string& type, const std::string& params) {
  return read("{optimizer: {type: \"" + type + "\", params: {" + params + "}}}");
}

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
  EXPECT_EQ(options.optimizer.beta1, 0.8);
  EXPECT_EQ(options.optimizer.beta2, 0.7);
  EXPECT_EQ(options.optimizer.eps, 1e-6);
  EXPECT_EQ(options.optimizer.weight_decay, 0.1);
  EXPECT_FALSE(options.optimizer.bias_correction);
  EXPECT_EQ(options.scheduler.kind, SchedulerKind::kWarmup);
  EXPECT_EQ(options.scheduler.warmup_min_lr, 1e-6);
  EXPECT_EQ(options.scheduler.warmup_max_lr, 2e-4);
  EXPECT_EQ(options.scheduler.warmup_num_steps, 7);
  EXPECT_EQ(options.scheduler.warmup_type, engine::WarmupType::kLinear);
  EXPECT_TRUE(options.notes.empty()) << core::join(options.notes, "\n");
}

TEST(DsConfig, DefaultsAreDeepSpeeds) {
  const TrainOptions options = read("{train_batch_size: 8, optimizer: {type: \"AdamW\"}}");
  EXPECT_EQ(options.gradient_clipping, 1.0);
  EXPECT_EQ(options.zero_stage, 0);
  EXPECT_FALSE(options.recompute);
  EXPECT_EQ(options.sum_order, core::SumOrder::kFast);
  EXPECT_EQ(options.optimizer.lr, 1e-3);
  EXPECT_EQ(options.optimizer.beta2, 0.999);
  EXPECT_EQ(options.optimizer.weight_decay, 0.0);
  EXPECT_EQ(options.scheduler.kind, SchedulerKind::kConstant);
  EXPECT_FALSE(options.batch.micro_batch.has_value());
}

TEST(DsConfig, PipelineIntervalTurnsRecomputationOn) {
  EXPECT_TRUE(read("{pipeline: {activation_checkpoint_interval: 1}}").recompute);
  EXPECT_FALSE(read("{pipeline: {activation_checkpoint_interval: 0}}").recompute);
}

TEST(DsConfig, NumbersAreAsLaxAsPydantic) {
  EXPECT_EQ(read("{train_batch_size: 3.2e1}").batch.train_batch, 32);
  EXPECT_EQ(read("{train_batch_size: \"12\"}").batch.train_batch, 12);
  const std::string optimizer = ", optimizer: {type: \"Adam\"}}";
  EXPECT_EQ(read("{zero_optimization: {stage: true}" + optimizer).zero_stage, 1);
  EXPECT_TRUE(read("{optimizer: {type: \"AdamW\", params: {bias_correction: \"yes\"}}}")
                  .optimizer.bias_correction);
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
  EXPECT_TRUE(holds(refusal("{checkpoint: {tag_validation: \"maybe\"}}"), "\"ignore\""));
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

TEST(DsConfig, AnUnknownKeyElsewhereIsNotedWithTheNearest) {
  const std::string said = notes("{train_batch_size: 8,\n\"gradient_acumulation_steps\": 2}");
  EXPECT_TRUE(holds(said,
                    "unknown key \"gradient_acumulation_steps\" has no effect; did you mean "
                    "\"gradient_accumulation_steps\"? (t.json:2)"));
  EXPECT_TRUE(holds(notes("{aio: {queue_deph: 2}}"), "did you mean \"queue_depth\"?"));
}

TEST(DsConfig, PrecisionAndOffloadAreRefusedInOneMessage) {
  const std::string said = refusal(R"({
    "bf16": {"enabled": true},
    "fp16": {"enabled": true},
    "zero_optimization": {"stage": 3,
      "offload_optimizer": {"device": "cpu"},
      "offload_param": {"device": "nvme", "nvme_path": "/x"}}})");
  EXPECT_TRUE(holds(said, "bf16.enabled = true (line 2), fp16.enabled = true (line 3)"));
  EXPECT_TRUE(holds(said, "--precision fp32"));
  EXPECT_TRUE(holds(said, "zero_optimization.offload_optimizer.device = \"cpu\" (line 5)"));
  EXPECT_TRUE(holds(said, "zero_optimization.offload_param.device = \"nvme\" (line 6)"));
  EXPECT_EQ(said.find('\n'), std::string::npos);
}

TEST(DsConfig, PrecisionFp32OverridesByName) {
  const std::string json =
      "{bf16: {enabled: true},\nprecision: \"bfloat16\",\n"
      "data_types: {grad_accum_dtype: \"bf16\"}}";
  EXPECT_TRUE(holds(refusal(json), "only fp32 is there today"));
  EXPECT_TRUE(holds(notes(json, PrecisionFlag::kForcedFp32),
                    "--precision fp32 overrides bf16.enabled = true (line 1)"));
  const std::string offload =
      "{zero_optimization: {stage: 0, offload_optimizer: {device: \"cpu\"}}}";
  EXPECT_TRUE(holds(refusal(offload, PrecisionFlag::kForcedFp32), "offload"));
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
  for (const char* json : {"{amp: {enabled: true}}",
                           "{torch_autocast: {enabled: true}}",
                           "{lora: {r: 8}}",
                           "{zero_optimization: {zenflow: {topk_ratio: 0.1}}}",
                           "{elasticity: {enabled: true}}",
                           "{zero_optimization: {cpu_offload: true}}",
                           "{curriculum_learning: {enabled: true}}",
                           "{zero_optimization: {zero_quantized_gradients: true}}",
                           "{sequence_parallel_size: 2}",
                           "{zero_optimization: {legacy_stage1: true}}",
                           "{data_efficiency: {enabled: true}}",
                           "{gradient_allreduce_op: \"sum\"}",
                           "{communication_data_type: \"fp16\"}",
                           "{managed_gradient_accumulation: false}",
                           "{tensor_parallel: {autotp_size: 2}}",
                           "{sparse_attention: {mode: \"fixed\"}}",
                           "{progressive_layer_drop: {enabled: true}}",
                           "{compression_training: {a: {shared_parameters: {enabled: true}}}}",
                           "{quantize_training: {enabled: true}}",
                           "{tensor_parallel: {tp: {tp_size: 4}}}"}) {
    EXPECT_TRUE(holds(refusal(json), "must hold only what fmengine can honour")) << json;
  }
}

TEST(DsConfig, IgnoredKeysAreNotedOnceWithTheReason) {
  const std::string said = notes(R"({"steps_per_print": 10, "prescale_gradients": true,
      "zero_optimization": {"reduce_bucket_size": 1000, "overlap_comm": true}})");
  EXPECT_TRUE(holds(said,
                    "ignored zero_optimization.reduce_bucket_size, "
                    "zero_optimization.overlap_comm: bucket sizes"));
  EXPECT_TRUE(holds(said, "ignored steps_per_print: --log_steps"));
  EXPECT_EQ(notes(R"({"prescale_gradients": false, "optimizer": {"type": "AdamW"},
      "zero_optimization": {"reduce_bucket_size": 5e8}})"),
            "");
}

TEST(DsConfig, ABlockThatIsOffGivesNoNotes) {
  EXPECT_EQ(notes(R"({"optimizer": {"type": "AdamW"},
      "flops_profiler": {"enabled": false, "profile_step": 10, "output_file": "x"}})"),
            "");
  EXPECT_TRUE(holds(notes("{flops_profiler: {enabled: true}}"), "flops_profiler.enabled"));
}

TEST(DsConfig, DeprecatedKeys) {
  EXPECT_TRUE(
      holds(notes("{optimizer: {type: \"AdamW\"}, zero_optimization: true}"), "is deprecated"));
  EXPECT_EQ(read("{optimizer: {type: \"AdamW\"}, zero_optimization: true}").zero_stage, 1);
  EXPECT_EQ(read("{zero_optimization: false}").zero_stage, 0);
  EXPECT_TRUE(holds(
      refusal("{zero_optimization: {cpu_offload: true, offload_optimizer: {device: \"cpu\"}}}"),
      "Cannot provide deprecated parameter 'zero_optimization.cpu_offload' and replacing"));
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
                  PrecisionFlag::kFromJson, options);
  EXPECT_EQ(options.batch.micro_batch, 1);
  EXPECT_FALSE(options.batch.train_batch.has_value());
  EXPECT_FALSE(options.batch.accumulation.has_value());
  EXPECT_EQ(options.gradient_clipping, 1.0);
  EXPECT_EQ(options.optimizer.lr, 1e-3);
  EXPECT_EQ(options.optimizer.beta1, 0.9);
  EXPECT_EQ(options.scheduler.warmup_min_lr, 0.0);
  EXPECT_EQ(options.scheduler.warmup_max_lr, 1e-3);
  EXPECT_EQ(options.scheduler.total_num_steps, 500);
  EXPECT_EQ(options.scheduler.warmup_num_steps, 1);
}

TEST(DsOptimizer, AdamMeansAdamWUnlessItSaysOtherwise) {
  struct Row {
    const char* type;
    const char* mode;
    bool decoupled;
  };
  // tests/unit/ops/adam/test_adamw.py of the reference
  for (const Row& row :
       {Row{"Adam", "true", true}, Row{"Adam", "false", false}, Row{"AdamW", "true", true},
        Row{"AdamW", "false", true}, Row{"adam", "true", true}, Row{"ADAMW", "false", true}}) {
    const TrainOptions options =
        with_optimizer(row.type, std::string("adam_w_mode: ") + row.mode + "\n");
    EXPECT_EQ(options.optimizer.kind, OptimizerKind::kAdamW);
    EXPECT_EQ(options.optimizer.decoupled, row.decoupled) << row.type << " " << row.mode;
  }
  EXPECT_TRUE(with_optimizer("Adam", "lr: 1e-3\n").optimizer.decoupled);
}

TEST(DsOptimizer, TorchAdamWDecaysByDefault) {
  EXPECT_EQ(with_optimizer("AdamW", "torch_adam: true\n").optimizer.weight_decay, 0.01);
  EXPECT_EQ(with_optimizer("Adam", "torch_adam: true\n").optimizer.weight_decay, 0.01);
  EXPECT_EQ(with_optimizer("Adam", "torch_adam: true, adam_w_mode: false\n").optimizer.weight_decay,
            0.0);
  EXPECT_EQ(with_optimizer("AdamW", "torch_adam: true, weight_decay: 0.2\n").optimizer.weight_decay,
            0.2);
}

TEST(DsOptimizer, SgdNeedsTheUntestedFlagWithZero) {
  const std::string sgd =
      "optimizer: {type: \"SGD\", params: {lr: 0.1, momentum: 0.9, nesterov: true\n}}";
  const TrainOptions options = read("{" + sgd + "}");
  EXPECT_EQ(options.optimizer.kind, OptimizerKind::kSgd);
  EXPECT_EQ(options.optimizer.momentum, 0.9);
  EXPECT_TRUE(options.optimizer.nesterov);
  EXPECT_TRUE(holds(refusal("{zero_optimization: {stage: 1}, " + sgd + "}"),
                    "Please add <\"zero_allow_untested_optimizer\": true>"));
  EXPECT_EQ(
      refusal("{zero_allow_untested_optimizer: true, zero_optimization: {stage: 1}, " + sgd + "}"),
      "accepted");
  EXPECT_TRUE(holds(refusal("{optimizer: {type: \"SGD\", params: {nesterov: true\n}}}"),
                    "requires a momentum and zero dampening"));
}

TEST(DsOptimizer, OtherTypesAreRefused) {
  const auto type = [](const char* name) {
    return refusal(std::string("{optimizer: {type: \"") + name + "\"}}");
  };
  EXPECT_TRUE(holds(type("Lion"), "it comes later, today there are Adam, AdamW and SGD"));
  EXPECT_TRUE(holds(type("OneBitAdam"), "it comes later"));
  EXPECT_TRUE(holds(type("AddamW"), "AddamW is not a supported DeepSpeed Optimizer, did you mean"));
  EXPECT_TRUE(holds(type("sgd"), "did you mean \"SGD\"?"));
}

TEST(DsOptimizer, ParamsThatTheTypeDoesNotTakeAreRefused) {
  EXPECT_TRUE(holds(refusal("{optimizer: {type: \"AdamW\", params: {max_grad_norm: 1\n}}}"),
                    "gradient_clipping"));
  EXPECT_TRUE(holds(refusal("{optimizer: {type: \"AdamW\", params: {momentum: 0.9\n}}}"),
                    "AdamW takes no parameter \"momentum\""));
  EXPECT_TRUE(holds(refusal("{optimizer: {type: \"AdamW\", params: {weight_decai: 0.9\n}}}"),
                    "did you mean \"weight_decay\"?"));
  EXPECT_TRUE(
      holds(refusal("{optimizer: {type: \"AdamW\", params: {amsgrad: true\n}}}"), "AMSGrad"));
  EXPECT_TRUE(holds(refusal("{optimizer: {type: \"AdamW\", params: {betas: [0.9, 1.0]\n}}}"),
                    "must lie in [0, 1)"));
  EXPECT_TRUE(
      holds(refusal("{optimizer: {type: \"AdamW\", params: {betas: [0.9]\n}}}"), "two numbers"));
  EXPECT_TRUE(holds(refusal("{optimizer: {type: \"AdamW\", params: {lr: -1\n}}}"),
                    "optimizer.params.lr must not be negative"));
}

TEST(DsOptimizer, ZeroNeedsOne) {
  EXPECT_TRUE(
      holds(refusal("{zero_optimization: {stage: 2}}"), "zero stage 2 requires an optimizer"));
}

TrainOptions with_scheduler(const std::string& type, const std::string& params) {
  return read("{optimizer: {type: \"Adam\"}, scheduler: {type: \"" + type + "\", params: {" +
              params + "\n}}}");
}

TEST(DsScheduler, MapsThreeTypesWithTheirDefaults) {
  const auto warmup = with_scheduler("WarmupLR", "").scheduler;
  EXPECT_EQ(warmup.kind, SchedulerKind::kWarmup);
  EXPECT_FALSE(warmup.warmup_max_lr.has_value());
  EXPECT_EQ(warmup.warmup_num_steps, 1000);
  EXPECT_EQ(warmup.warmup_type, engine::WarmupType::kLog);
  const auto decay = with_scheduler("WarmupDecayLR", "total_num_steps: 50").scheduler;
  EXPECT_EQ(decay.kind, SchedulerKind::kWarmupDecay);
  EXPECT_EQ(decay.warmup_max_lr, 0.001);
  EXPECT_EQ(decay.total_num_steps, 50);
  const auto cosine =
      with_scheduler("WarmupCosineLR",
                     "total_num_steps: 50, warmup_min_ratio: 0.2, cos_min_ratio: 0.1")
          .scheduler;
  EXPECT_EQ(cosine.kind, SchedulerKind::kWarmupCosine);
  EXPECT_EQ(cosine.warmup_min_ratio, 0.2);
  EXPECT_EQ(cosine.cos_min_ratio, 0.1);
  EXPECT_EQ(with_scheduler("WarmupCosineLR", "total_num_steps: 9").scheduler.cos_min_ratio, 0.0001);
}

TEST(DsScheduler, WithoutParamsTheDefaultsHold) {
  EXPECT_EQ(read("{scheduler: {type: \"WarmupLR\"}}").scheduler.warmup_num_steps, 1000);
}

TEST(DsScheduler, RefusesWithDeepSpeedsWords) {
  const auto said = [](const std::string& type, const std::string& params) {
    return refusal_of([&] { with_scheduler(type, params); });
  };
  EXPECT_TRUE(holds(said("OneCycle", "cycle_min_lr: 1, cycle_max_lr: 2"), "it comes later"));
  EXPECT_TRUE(
      holds(said("warmuplr", ""), "does not recognize LR scheduler warmuplr, did you mean"));
  EXPECT_TRUE(holds(said("WarmupLR", "warmup_num_steps: 0"), "a whole number > 0"));
  EXPECT_TRUE(holds(said("WarmupDecayLR", ""), "requires scheduler.params.total_num_steps"));
  EXPECT_TRUE(holds(said("WarmupLR", "total_num_steps: 5"), "takes no parameter"));
  EXPECT_TRUE(holds(said("WarmupCosineLR", "total_num_steps: 5, warmup_max_lr: 1"),
                    "WarmupCosineLR takes no parameter \"warmup_max_lr\""));
}

TEST(DsScheduler, AnUnknownWarmupTypeMeansLogAndSaysSo) {
  const TrainOptions options = with_scheduler("WarmupLR", "warmup_type: \"cubic\"");
  EXPECT_EQ(options.scheduler.warmup_type, engine::WarmupType::kLog);
  EXPECT_TRUE(holds(core::join(options.notes, "\n"), "log is used"));
}

}  // namespace
}  // namespace fm::cli
