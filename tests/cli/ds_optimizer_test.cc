// The optimizer and scheduler blocks; expected values are DeepSpeed's documented ones.
#include "tests/cli/read_ds.h"

namespace fm::cli {
namespace {

using engine::TrainOptions;

TrainOptions with_optimizer(const std::string& type, const std::string& params) {
  return read("{optimizer: {type: \"" + type + "\", params: {" + params + "}}}");
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
    EXPECT_EQ(options.optimizer.rule, &optim::kAdamW);
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
  EXPECT_EQ(options.optimizer.rule, &optim::kSgd);
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
  EXPECT_TRUE(
      holds(type("MuAdam"),
            "it comes later, today there are Adam, AdamW, Lion, Adagrad, Lamb, Muon and SGD"));
  EXPECT_TRUE(holds(type("OneBitAdam"), "one bit of every gradient"));
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

TEST(DsOptimizer, LambHasDeepSpeedsDefaultsAndAsksForAWordBesideZero) {
  const auto lamb = read("{optimizer: {type: \"lamb\", params: {max_coeff: 0.3\n}}}").optimizer;
  EXPECT_EQ(lamb.rule, &optim::kLamb);
  EXPECT_EQ(lamb.lr, 1e-3);
  EXPECT_EQ(lamb.eps, 1e-8);
  EXPECT_EQ(lamb.max_coeff, 0.3);
  EXPECT_EQ(lamb.min_coeff, 0.01);
  EXPECT_TRUE(lamb.bias_correction);
  EXPECT_FALSE(lamb.eps_inside_sqrt);
  const std::string params = "optimizer: {type: \"Lamb\", params: {min_coeff: 20\n}}";
  EXPECT_TRUE(holds(refusal("{" + params + "}"), "min_coeff must not be above max_coeff"));
  const std::string zero = "zero_optimization: {stage: 1}, optimizer: {type: \"Lamb\"}";
  EXPECT_TRUE(holds(refusal("{" + zero + "}"), "zero_allow_untested_optimizer"));
  EXPECT_EQ(refusal("{zero_allow_untested_optimizer: true, " + zero + "}"), "accepted");
}

TEST(DsOptimizer, MuonHasTwoRatesUnlessAScheduleMakesThemOne) {
  const auto muon = read("{optimizer: {type: \"Muon\"}}").optimizer;
  EXPECT_EQ(muon.rule, &optim::kMuon);
  EXPECT_EQ(muon.lr, 0.02);
  EXPECT_EQ(muon.momentum, 0.95);
  EXPECT_DOUBLE_EQ(muon.lr * muon.adam_rate, 3e-4);
  EXPECT_EQ(muon.betas[1], 0.95);
  EXPECT_EQ(muon.eps, 1e-10);
  const std::string rates = "optimizer: {type: \"muon\", params: {lr: 1, muon_lr: 0.1, adam_lr: 2";
  const auto two = read("{" + rates + "\n}}}").optimizer;
  EXPECT_EQ(two.lr, 0.1);
  EXPECT_DOUBLE_EQ(two.adam_rate, 20.0);
  // As the rates of two groups under DeepSpeed 0.19.6's lr_schedules.py.
  const auto under = [&](const std::string& scheduler) {
    return read("{scheduler: {" + scheduler + "}, " + rates + "\n}}}").optimizer.adam_rate;
  };
  EXPECT_DOUBLE_EQ(under("type: \"WarmupLR\""), 20.0);
  EXPECT_DOUBLE_EQ(under("type: \"WarmupCosineLR\", params: {total_num_steps: 9\n}"), 20.0);
  EXPECT_EQ(under("type: \"WarmupLR\", params: {warmup_max_lr: 0.01\n}"), 1.0);
  EXPECT_EQ(under("type: \"WarmupDecayLR\", params: {total_num_steps: 9\n}"), 1.0);
  EXPECT_EQ(under("type: \"LRRangeTest\""), 1.0);
  EXPECT_TRUE(holds(refusal("{scheduler: {type: \"WarmupLR\", params: {warmup_min_lr: 0.001\n}}, " +
                            rates + "\n}}}"),
                    "must be 0 beside the two rates of Muon"));
  const auto cycle = read(
      "{scheduler: {type: \"OneCycle\", params: {cycle_min_lr: 1, "
      "cycle_max_lr: 2\n}}, optimizer: {type: \"Muon\"}}");
  EXPECT_FALSE(cycle.scheduler.cycle_momentum) << "DeepSpeed finds no betas in Muon's defaults";
  EXPECT_TRUE(holds(refusal("{optimizer: {type: \"Muon\", params: {ns_method: \"svd\"\n}}}"),
                    "must be \"gram\" or \"standard\""));
  EXPECT_TRUE(
      holds(refusal("{optimizer: {type: \"Muon\", params: {momentum: 1\n}}}"), "must be below 1"));
}

TEST(DsOptimizer, LionAndAdagradHaveTheirOwnDefaults) {
  const auto lion = read("{optimizer: {type: \"lion\", params: {betas: [0.9, 0.99]\n}}}").optimizer;
  EXPECT_EQ(lion.rule, &optim::kLion);
  EXPECT_EQ(lion.lr, 1e-3);
  EXPECT_EQ(lion.betas[1], 0.99);
  const auto adagrad =
      read("{optimizer: {type: \"Adagrad\", params: {lr_decay: 0.5\n}}}").optimizer;
  EXPECT_EQ(adagrad.rule, &optim::kAdagrad);
  EXPECT_EQ(adagrad.lr, 1e-2);
  EXPECT_EQ(adagrad.eps, 1e-10);
  EXPECT_EQ(adagrad.lr_decay, 0.5);
  EXPECT_TRUE(holds(refusal("{optimizer: {type: \"Lion\", params: {eps: 1e-8\n}}}"),
                    "Lion takes no parameter \"eps\""));
  EXPECT_TRUE(
      holds(refusal("{optimizer: {type: \"Adagrad\", params: {initial_accumulator_value: 1\n}}}"),
            "sums of squares begin with 0"));
}

TrainOptions with_scheduler(const std::string& type, const std::string& params) {
  return read("{optimizer: {type: \"Adam\"}, scheduler: {type: \"" + type + "\", params: {" +
              params + "\n}}}");
}

TEST(DsScheduler, MapsThreeTypesWithTheirDefaults) {
  const auto warmup = with_scheduler("WarmupLR", "").scheduler;
  EXPECT_EQ(warmup.rule, &optim::kWarmupLr);
  EXPECT_FALSE(warmup.warmup_max_lr.has_value());
  EXPECT_EQ(warmup.warmup_num_steps, 1000);
  EXPECT_EQ(warmup.warmup_type, engine::WarmupType::kLog);
  const auto decay = with_scheduler("WarmupDecayLR", "total_num_steps: 50").scheduler;
  EXPECT_EQ(decay.rule, &optim::kWarmupDecayLr);
  EXPECT_EQ(decay.warmup_max_lr, 0.001);
  EXPECT_EQ(decay.total_num_steps, 50);
  const auto cosine =
      with_scheduler("WarmupCosineLR",
                     "total_num_steps: 50, warmup_min_ratio: 0.2, cos_min_ratio: 0.1")
          .scheduler;
  EXPECT_EQ(cosine.rule, &optim::kWarmupCosineLr);
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
  EXPECT_TRUE(holds(said("OneCycle", "cycle_min_lr: 1"),
                    "OneCycle requires scheduler.params.cycle_max_lr"));
  EXPECT_TRUE(holds(said("OneCycle", "cycle_min_lr: 1, cycle_max_lr: 2, cycle_first_step_size: 0"),
                    "a whole number > 0"));
  EXPECT_TRUE(holds(said("OneCycle", "cycle_min_lr: 1, cycle_max_lr: 2, cycle_max_mom: 1"),
                    "must stay in [0, 1)"));
  EXPECT_TRUE(holds(said("LRRangeTest", "lr_range_test_step_size: 0"), "a whole number > 0"));
  EXPECT_TRUE(holds(said("OneCycleLR", ""), "it comes later"));
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

TEST(DsOptimizer, ContentWithoutATypeIsRefused) {
  EXPECT_TRUE(holds(refusal("{\noptimizer: {params: {lr: 3e-4\n}}}"),
                    "optimizer.type is required; write \"type\": \"AdamW\", or remove the block"));
  EXPECT_TRUE(holds(refusal("{optimizer: {typ: \"AdamW\"}}"),
                    "write \"type\": \"AdamW\" instead of \"typ\""));
  EXPECT_TRUE(holds(refusal("{optimizer: {type: null, params: {lr: 1\n}}}"), "type is required"));
  EXPECT_TRUE(holds(refusal("{zero_optimization: {stage: 1}, optimizer: {params: {lr: 1\n}}}"),
                    "optimizer.type is required"));
  for (const char* nothing : {"{optimizer: {}}", "{optimizer: null}", "{optimizer: \"auto\"}",
                              "{optimizer: {type: null, params: null}}"}) {
    EXPECT_TRUE(holds(notes(nothing), "no optimizer in the configuration")) << nothing;
  }
}

TEST(DsOptimizer, AnAutoTypeIsAdamWAndKeepsTheParams) {
  const TrainOptions options =
      read("{optimizer: {type: \"auto\", params: {lr: 3e-4, weight_decay: 0.2\n}}}");
  EXPECT_EQ(options.optimizer.lr, 3e-4);
  EXPECT_EQ(options.optimizer.weight_decay, 0.2);
  EXPECT_TRUE(holds(core::join(options.notes, "\n"), "\"auto\": optimizer.type is \"AdamW\""));
}

// Their params are keys that AdamW does not have: the type is what has to change.
TEST(DsOptimizer, AnotherTypeIsNamedWhateverItsParamsAre) {
  struct Row {
    const char* type;
    const char* params;
    const char* part;
  };
  for (const Row& row :
       {Row{"MuAdam", "max_coeff: 10, min_coeff: 0.01, eps_inside_sqrt: false", "it comes later"},
        Row{"OneBitAdam", "freeze_step: 400, cuda_aware: true, comm_backend_name: \"nccl\"",
            "one bit"},
        Row{"ZeroOneAdam", "var_freeze_step: 1, local_step_clipper: 16", "one bit"},
        Row{"MuSGD", "muon_lr: 0.02, adam_lr: 3e-4, ns_method: \"gram\"", "it comes later"},
        Row{"RMSprop", "alpha: 0.99, centered: true", "it comes later"},
        Row{"LBFGS", "max_iter: 20", "it comes later"},
        Row{"Adamm", "freeze_step: 4", "did you mean \"Adam\"?"}}) {
    const std::string said = refusal(std::string("{optimizer: {type: \"") + row.type +
                                     "\", params: {" + row.params + "\n}}}");
    EXPECT_TRUE(holds(said, std::string("optimizer.type = \"") + row.type)) << row.type;
    EXPECT_TRUE(holds(said, row.part)) << row.type;
  }
  EXPECT_TRUE(holds(refusal("{optimizer: {type: \"AdamW\", params: {freeze_step: 4\n}}}"),
                    "AdamW takes no parameter \"freeze_step\""));
}

// The largest fp32 number is 3.4028e38.
TEST(DsOptimizer, ALearningRateMustBeAnFp32NumberThatIsNotNegative) {
  for (const char* lr : {"-1e-3", "1e308", "3.5e38"}) {
    const std::string said =
        refusal(std::string("{optimizer: {type: \"AdamW\", params: {lr: ") + lr + "\n}}}");
    EXPECT_TRUE(holds(said, "optimizer.params.lr must not be negative and must be finite in fp32"))
        << lr;
  }
  EXPECT_EQ(with_optimizer("SGD", "lr: 0\n").optimizer.lr, 0.0);
  for (const char* params : {"warmup_max_lr: -1e-3", "warmup_min_lr: -1", "warmup_max_lr: 1e308"}) {
    EXPECT_TRUE(holds(refusal_of([&] { with_scheduler("WarmupLR", params); }),
                      "must not be negative and must be finite in fp32"))
        << params;
  }
  for (const char* params : {"warmup_min_ratio: -0.1", "cos_min_ratio: -0.1"}) {
    const std::string all = std::string("total_num_steps: 9, ") + params;
    EXPECT_TRUE(
        holds(refusal_of([&] { with_scheduler("WarmupCosineLR", all); }), "must not be negative"))
        << params;
  }
}

TEST(DsOptimizer, SgdTakesADampening) {
  EXPECT_EQ(with_optimizer("SGD", "momentum: 0.9, dampening: 0.25\n").optimizer.dampening, 0.25);
  EXPECT_TRUE(holds(
      refusal_of([] { with_optimizer("SGD", "momentum: 0.9, dampening: 0.25, nesterov: true\n"); }),
      "zero dampening"));
}

TEST(DsScheduler, ContentWithoutATypeIsRefused) {
  EXPECT_TRUE(holds(refusal("{scheduler: {params: {warmup_num_steps: 5\n}}}"),
                    "scheduler.type is required; write \"type\": \"WarmupLR\""));
  EXPECT_TRUE(holds(refusal("{scheduler: {Type: \"WarmupLR\"}}"), "did you mean \"type\"?"));
  EXPECT_EQ(read("{optimizer: {type: \"Adam\"}, scheduler: {}}").scheduler.rule, &optim::kConstant);
}

TEST(DsScheduler, AnAutoTypeIsWarmupLRAndKeepsTheParams) {
  const TrainOptions options = with_scheduler("auto", "warmup_num_steps: 5");
  EXPECT_EQ(options.scheduler.rule, &optim::kWarmupLr);
  EXPECT_EQ(options.scheduler.warmup_num_steps, 5);
  EXPECT_TRUE(holds(core::join(options.notes, "\n"), "\"auto\": scheduler.type is \"WarmupLR\""));
}

TEST(DsScheduler, AnotherTypeIsNamedWhateverItsParamsAre) {
  EXPECT_TRUE(holds(refusal_of([] { with_scheduler("CosineAnnealingLR", "T_max: 100"); }),
                    "scheduler.type = \"CosineAnnealingLR\""));
  EXPECT_TRUE(holds(refusal_of([] { with_scheduler("CosineAnnealingLR", "T_max: 100"); }),
                    "it comes later"));
  EXPECT_TRUE(holds(refusal_of([] { with_scheduler("StepLR", "step_size: 3"); }), "StepLR"));
  EXPECT_TRUE(holds(refusal_of([] { with_scheduler("WarmupLR", "T_max: 100"); }),
                    "WarmupLR takes no parameter \"T_max\""));
}

TEST(DsScheduler, AnAutoLimitIsTheOptimizersLearningRate) {
  const TrainOptions options = read(
      "{optimizer: {type: \"Adam\", params: {lr: 3e-4\n}}, scheduler: {type: "
      "\"WarmupDecayLR\", params: {warmup_max_lr: \"auto\", total_num_steps: 9\n}}}");
  EXPECT_EQ(options.scheduler.warmup_max_lr, 3e-4);
}

// lr_schedules.py, class WarmupLR: a warmup_max_lr that is None is the optimizer's; a default
// stands only where the key is absent.
TEST(DsScheduler, ANullLimitIsTheOptimizersLearningRate) {
  for (const char* type : {"WarmupLR", "WarmupDecayLR"}) {
    const std::string total = type == std::string("WarmupLR") ? "" : ", total_num_steps: 9";
    const auto scheduler =
        read(std::string("{optimizer: {type: \"Adam\", params: {lr: 3e-4\n}}, scheduler: {type: "
                         "\"") +
             type + "\", params: {warmup_max_lr: null" + total + "\n}}}")
            .scheduler;
    EXPECT_EQ(scheduler.warmup_max_lr.value_or(3e-4), 3e-4) << type;
  }
}

// None reaches arithmetic there, or is taken for false where the default is true.
TEST(DsScheduler, NullIsNoNumber) {
  EXPECT_TRUE(holds(refusal_of([] { with_scheduler("WarmupLR", "\nwarmup_num_steps: null"); }),
                    "scheduler.params.warmup_num_steps must be a whole number; correct it "
                    "(null)"));
  for (const char* params : {"total_num_steps: null", "total_num_steps: 9, warmup_min_ratio: null",
                             "total_num_steps: 9, cos_min_ratio: null"}) {
    EXPECT_TRUE(holds(refusal_of([&] { with_scheduler("WarmupCosineLR", params); }), "(null)"))
        << params;
  }
  for (const char* params : {"lr: null", "betas: null", "adam_w_mode: null"}) {
    EXPECT_TRUE(holds(refusal_of([&] { with_optimizer("Adam", params); }), "(null)")) << params;
  }
  EXPECT_EQ(with_scheduler("WarmupLR", "warmup_type: null").scheduler.warmup_type,
            engine::WarmupType::kLog);
  EXPECT_FALSE(
      with_optimizer("SGD", "momentum: 0.5, nesterov: null, foreach: null").optimizer.nesterov);
}

// lr_schedules.py, _format_param: one number for each parameter group, and there is one group.
TEST(DsScheduler, ALimitMayBeAListOfOne) {
  const auto scheduler =
      with_scheduler("WarmupLR", "warmup_min_lr: [1e-5], warmup_max_lr: [0.25]").scheduler;
  EXPECT_EQ(scheduler.warmup_min_lr, 1e-5);
  EXPECT_EQ(scheduler.warmup_max_lr, 0.25);
  for (const char* params : {"warmup_max_lr: [0.25, 0.5]", "warmup_max_lr: []",
                             "warmup_min_lr: [[1]]", "warmup_min_lr: [null]"}) {
    EXPECT_TRUE(holds(refusal_of([&] { with_scheduler("WarmupLR", params); }),
                      "must be a number, or a list of one number"))
        << params;
  }
  EXPECT_TRUE(holds(refusal_of([] { with_scheduler("WarmupLR", "warmup_max_lr: [-1]"); }),
                    "must not be negative"));
  EXPECT_TRUE(holds(refusal_of([] { with_optimizer("AdamW", "lr: [1]"); }), "must be a number;"));
}

TEST(DsScheduler, NoWarmupIsNoSteps) {
  EXPECT_TRUE(holds(refusal_of([] { with_scheduler("WarmupLR", "warmup_num_steps: 0"); }),
                    "1 gives the shortest warm-up, two steps at warmup_min_lr"));
}

}  // namespace
}  // namespace fm::cli
