// Flags of Hugging Face's Trainer beside a DeepSpeed JSON: what fills "auto", what must agree, and
// the schedules, against transformers' own rates (trainer_schedules.txt).
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cli/flags/arguments.h"
#include "core/text.h"
#include "tests/cli/expect_refusal.h"

namespace fm::cli {
namespace {

using engine::TrainOptions;
using Words = std::vector<std::string>;

// Of --plan, which needs neither a model nor data to be parsed.
TrainOptions options_of(const std::string& json, const Words& flags) {
  Words words = {"--plan", "--model_config", "c.json", "--deepspeed_config", json};
  words.insert(words.end(), flags.begin(), flags.end());
  return parse_command(words).options;
}
std::string refused(const std::string& json, const Words& flags) {
  return refusal_of([&] { options_of(json, flags); });
}
std::string notes_of(const std::string& json, const Words& flags) {
  return core::join(options_of(json, flags).notes, "\n");
}

constexpr const char* kAuto = R"({"train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto", "gradient_clipping": "auto", "bf16": {"enabled": "auto"},
  "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto",
                                            "weight_decay": "auto"}},
  "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": "auto",
     "warmup_max_lr": "auto", "warmup_num_steps": "auto", "total_num_steps": "auto"}}})";

TEST(TrainerFlags, FillAuto) {
  const TrainOptions at = options_of(kAuto, {"--learning_rate",
                                             "2e-5",
                                             "--weight_decay",
                                             "0.1",
                                             "--adam_beta1",
                                             "0.8",
                                             "--adam_beta2",
                                             "0.95",
                                             "--adam_epsilon",
                                             "1e-6",
                                             "--max_grad_norm",
                                             "0.5",
                                             "--warmup_ratio",
                                             "0.03",
                                             "--max_steps",
                                             "110",
                                             "--per_device_train_batch_size",
                                             "4",
                                             "--gradient_accumulation_steps",
                                             "16",
                                             "--bf16",
                                             "True"});
  EXPECT_EQ(at.optimizer.lr, 2e-5);
  EXPECT_EQ(at.optimizer.weight_decay, 0.1);
  EXPECT_EQ(at.optimizer.betas, (std::array{0.8, 0.95}));
  EXPECT_EQ(at.optimizer.eps, 1e-6);
  EXPECT_EQ(at.gradient_clipping, 0.5);
  EXPECT_EQ(at.scheduler.warmup_max_lr, 2e-5);
  EXPECT_EQ(at.scheduler.warmup_num_steps, 4);  // 3.3, rounded up
  EXPECT_EQ(at.scheduler.total_num_steps, 110);
  EXPECT_EQ(at.batch.micro_batch, 4);
  EXPECT_EQ(at.batch.accumulation, 16);
  EXPECT_EQ(at.element, core::DType::kBF16);
  EXPECT_TRUE(holds(core::join(at.notes, "\n"), "optimizer.params.lr 2e-05 (--learning_rate)"));
}

TEST(TrainerFlags, AWarmupIsStepsOrAShare) {
  const auto steps = [](const Words& flags) {
    return options_of(kAuto, flags).scheduler.warmup_num_steps;
  };
  EXPECT_EQ(steps({"--warmup_steps", "1", "--warmup_ratio", "1"}), 1);  // steps win
  EXPECT_EQ(steps({"--warmup_steps", "0", "--warmup_ratio", "1"}), 100);
  EXPECT_EQ(steps({"--warmup_steps", "0.25"}), 25);
}

TEST(TrainerFlags, FillWhatIsNotThere) {
  const TrainOptions at = options_of(
      R"({"train_batch_size": 8, "optimizer": {"type": "Lion", "params": {"lr": 1e-4}}})",
      {"--max_grad_norm", "0", "--weight_decay", "0.3", "--bf16", "--adam_epsilon", "1e-6"});
  EXPECT_EQ(at.gradient_clipping, 0.0);
  EXPECT_EQ(at.optimizer.rule, &optim::kLion);
  EXPECT_EQ(at.optimizer.weight_decay, 0.3);
  EXPECT_EQ(at.element, core::DType::kBF16);
  EXPECT_TRUE(holds(core::join(at.notes, "\n"), "--adam_epsilon has no effect on type \"Lion\""));
}

TEST(TrainerFlags, MustAgreeWithTheJson) {
  struct Row {
    const char* json;
    const char* flag;
    const char* good;
    const char* bad;
    const char* path;
  };
  const std::string adam = R"({"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": )";
  for (const Row& row :
       {Row{R"({"lr": 1e-4}}})", "--learning_rate", "0.0001", "1e-3", "optimizer.params.lr"},
        Row{R"({"weight_decay": 0}}})", "--weight_decay", "0.0", "0.1", "weight_decay"},
        Row{R"({"eps": 1e-8}}})", "--adam_epsilon", "1e-8", "1e-6", "optimizer.params.eps"},
        Row{R"({"betas": [0.8, 0.999]}}})", "--adam_beta1", "0.8", "0.9", "betas"},
        Row{R"({}}, "gradient_clipping": 1})", "--max_grad_norm", "1.0", "2", "gradient_clipping"},
        Row{R"({}}, "bf16": {"enabled": true}})", "--bf16", "true", "false", "bf16.enabled"},
        Row{R"({}}, "gradient_accumulation_steps": 2})", "--gradient_accumulation_steps", "2", "4",
            "gradient_accumulation_steps"},
        Row{R"({}}, "train_micro_batch_size_per_gpu": 2})", "--per_device_train_batch_size", "2",
            "3", "train_micro_batch_size_per_gpu"},
        Row{R"({}}, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10}}})",
            "--warmup_steps", "10", "11", "warmup_num_steps"}}) {
    EXPECT_EQ(refused(adam + row.json, {row.flag, row.good}), "accepted") << row.flag;
    const std::string said = refused(adam + row.json, {row.flag, row.bad});
    EXPECT_TRUE(holds(said, row.path)) << row.flag;
    EXPECT_TRUE(holds(said, row.flag)) << row.flag;
    EXPECT_TRUE(holds(said, "write \"auto\" in the file, or leave the flag out")) << row.flag;
  }
}

// A file without an optimizer is the Trainer's: its AdamW, its batch size, its schedule.
TEST(TrainerFlags, AFileWithoutAnOptimizerIsTheTrainers) {
  const TrainOptions at = options_of(R"({"zero_optimization": {"stage": 2}})", {});
  EXPECT_EQ(at.optimizer.rule, &optim::kAdamW);
  EXPECT_EQ(at.optimizer.lr, 5e-5);
  EXPECT_EQ(at.batch.micro_batch, 8);
  EXPECT_EQ(at.scheduler.rule, &optim::kLinear);
  EXPECT_EQ(at.scheduler.total_num_steps, 100);
  // DeepSpeed's own stays constant.
  const char* own = R"({"train_batch_size": 8, "optimizer": {"type": "AdamW"}})";
  EXPECT_EQ(options_of(own, {}).scheduler.rule, &optim::kConstant);
  EXPECT_EQ(options_of(own, {"--lr_scheduler_type", "cosine"}).scheduler.rule, &optim::kCosine);
}

std::string undecayed(const std::string& json, const Words& flags) {
  const core::NoDecay at = options_of(json, flags).no_decay;
  return core::concat(at.norm ? "norm " : "", at.bias ? "bias " : "", at.embedding ? "head " : "");
}

// transformers' Trainer.create_optimizer has two groups; DeepSpeed's optimizers have one, also
// where the Trainer fills in their numbers.
TEST(TrainerFlags, NormsAndBiasesDecayWhereTheFileHasAnOptimizer) {
  const Words half = {"--weight_decay", "0.5"};
  for (const char* none : {"{}", R"({"optimizer": null})", R"({"optimizer": {}})",
                           R"({"optimizer": {"type": null, "params": null}})",
                           R"({"scheduler": {"type": "WarmupLR"}})"}) {
    EXPECT_EQ(undecayed(none, half), "norm bias ") << none;
  }
  EXPECT_EQ(undecayed(kAuto, half), "");
  EXPECT_EQ(undecayed(R"({"optimizer": {"type": "auto"}})", half), "");
  EXPECT_EQ(undecayed(R"({"optimizer": {"type": "Lion", "params": {"weight_decay": 1}}})", {}), "");
}

TEST(TrainerFlags, AFlagSaysWhatDoesNotDecay) {
  const auto with = [](const char* words) {
    return undecayed("{}", {"--weight_decay", "0.5", "--no_decay", words});
  };
  EXPECT_EQ(with("none"), "");
  EXPECT_EQ(with(""), "");
  EXPECT_EQ(with("norm"), "norm ");
  EXPECT_EQ(with("embedding,bias"), "bias head ");
  EXPECT_EQ(undecayed(kAuto, {"--no_decay", "norm"}), "norm ");
}

// Groups that are alike are no choice of a run, and no difference to the run of an older build.
TEST(TrainerFlags, WithoutDecayThereAreNoGroups) {
  EXPECT_EQ(undecayed("{}", {}), "");
  EXPECT_EQ(undecayed("{}", {"--weight_decay", "0"}), "");
}

TEST(TrainerFlags, TheSchedulerOfTheFileWins) {
  EXPECT_EQ(options_of(kAuto, {"--lr_scheduler_type", "cosine"}).scheduler.rule,
            &optim::kWarmupDecayLr);
  EXPECT_TRUE(holds(notes_of(kAuto, {"--lr_scheduler_type", "cosine"}),
                    "--lr_scheduler_type cosine has no effect, as in the Trainer"));
  const char* cycle = R"({"train_batch_size": 8, "optimizer": {"type": "AdamW"}, "scheduler":
      {"type": "OneCycle", "params": {"cycle_min_lr": 1, "cycle_max_lr": 2}}})";
  EXPECT_TRUE(holds(notes_of(cycle, {"--warmup_steps", "4"}),
                    "--warmup_steps has no effect on the schedule \"OneCycle\""));
}

TEST(TrainerFlags, OtherNames) {
  const TrainOptions at =
      options_of("{}", {"--max_steps", "7", "--logging_steps", "3", "--save_total_limit", "2",
                        "--train_file", "a.jsonl", "--validation_file", "b.jsonl",
                        "--gradient_checkpointing", "--resume_from_checkpoint", "True"});
  EXPECT_EQ(at.train_steps, 7);
  EXPECT_EQ(at.log_steps, 3);
  EXPECT_EQ(at.keep_last, 2);
  EXPECT_EQ(at.data_path, Words{"a.jsonl"});
  EXPECT_EQ(at.eval_data_path, Words{"b.jsonl"});
  EXPECT_TRUE(at.recompute);
  EXPECT_EQ(at.resume, checkpoint::Resume::kMust);
  const auto resumed = [](const char* word) {
    return options_of("{}", {"--resume_from_checkpoint", word}).resume;
  };
  EXPECT_EQ(resumed("false"), checkpoint::Resume::kNever);
  EXPECT_EQ(resumed("out/step_5"), checkpoint::Resume::kPath);
  EXPECT_EQ(options_of("{}", {"--eval_strategy", "no", "--validation_file", "b"}).eval_data_path,
            Words{});
  EXPECT_TRUE(holds(refused("{}", {"--max_steps", "7", "--train_steps", "8"}), "given twice"));
}

TEST(TrainerFlags, SeveralReportsAndSharesOfTheLength) {
  const TrainOptions at = options_of("{}", {"--report_to", "wandb", "tensorboard", "csv",
                                            "--max_steps", "30", "--logging_steps", "0.1"});
  EXPECT_EQ(at.monitors.tensorboard.size(), 1U);
  EXPECT_EQ(at.monitors.csv.size(), 1U);
  EXPECT_EQ(at.log_steps, 3);
  EXPECT_TRUE(holds(core::join(at.notes, "\n"), "--report_to wandb: "));
  EXPECT_TRUE(holds(refused("{}", {"--log_steps", "0"}), "--log_steps"));
  EXPECT_TRUE(options_of("{}", {"--report_to", "none"}).monitors.tensorboard.empty());
}

TEST(TrainerFlags, TheBestMayBeSavedAlone) {
  const TrainOptions at =
      options_of("{}", {"--save_strategy", "best", "--validation_file", "b", "--save_steps", "5"});
  EXPECT_TRUE(at.save_best);
  EXPECT_TRUE(at.saves);
  EXPECT_EQ(at.save_steps, 0);
  EXPECT_FALSE(at.load_best_model);
  EXPECT_TRUE(holds(refused("{}", {"--save_strategy", "best"}), "need evaluations"));
  EXPECT_TRUE(holds(refused("{}", {"--eval_strategy", "best"}), "must be one of steps, epoch, no"));
}

TEST(TrainerFlags, WhatHasNoEffectIsSaid) {
  EXPECT_TRUE(holds(notes_of("{}", {}), "neither --max_steps nor --num_train_epochs: 100 steps"));
  EXPECT_FALSE(holds(notes_of("{}", {"--max_steps", "100"}), "neither --max_steps"));
  EXPECT_TRUE(holds(notes_of("{}", {"--eval_strategy", "epoch"}),
                    "nothing is evaluated: --eval_strategy epoch needs --eval_data_path"));
  EXPECT_TRUE(holds(notes_of(kAuto, {"--lr_scheduler_kwargs", "{num_cycles: 2}"}),
                    "--lr_scheduler_kwargs {num_cycles: 2} has no effect"));
  EXPECT_TRUE(holds(notes_of("{}", {"--validation_file", "b", "--early_stopping_threshold", "1"}),
                    "--early_stopping_threshold has no effect"));
  EXPECT_TRUE(holds(refused(R"({"train_batch_size": 8, "optimizer": {"type": "AdamW"}, "scheduler":
      {"type": "WarmupLR", "params": {"warmup_num_steps": 5}}})",
                            {"--warmup_ratio", "0.5"}),
                    "--warmup_ratio is "));
}

TEST(TrainerFlags, AFlagThatRecomputesNothingGoesBeforeTheFile) {
  const char* const json = R"({"train_batch_size": 8, "optimizer": {"type": "AdamW"},
      "activation_checkpointing": {"partition_activations": false}})";
  EXPECT_TRUE(options_of(json, {}).recompute);
  EXPECT_FALSE(options_of(json, {"--gradient_checkpointing", "false"}).recompute);
  EXPECT_TRUE(holds(notes_of(json, {"--gradient_checkpointing", "false"}),
                    "nothing is recomputed: --gradient_checkpointing false"));
  EXPECT_TRUE(options_of("{}", {"--gradient_checkpointing"}).recompute);
}

// Of 7 steps each: lengths, schedules and rhythms follow.
TEST(TrainerFlags, EpochsBecomeSteps) {
  const auto command = [](Words more, std::optional<std::int64_t> steps_of_epoch) {
    const std::string config =
        R"({"scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto"}}})";
    Words words{"--model_config", "c", "--data_path", "d", "--deepspeed_config", config};
    words.insert(words.end(), more.begin(), more.end());
    return parse_command(words, steps_of_epoch);
  };
  EXPECT_FALSE(command({}, {}).counts_epochs);
  EXPECT_TRUE(command({"--num_train_epochs", "3"}, {}).counts_epochs);
  const engine::TrainOptions three = command({"--num_train_epochs", "3"}, 7).options;
  EXPECT_EQ(three.train_steps, 21);
  EXPECT_EQ(three.scheduler.total_num_steps, 21);
  EXPECT_EQ(three.save_steps, 100);
  const Words half{"--num_train_epochs", "0.5", "--max_steps", "-1"};
  EXPECT_EQ(command(half, 7).options.train_steps, 4);
  const Command steps = command({"--num_train_epochs", "3", "--max_steps", "5"}, {});
  EXPECT_FALSE(steps.counts_epochs);
  EXPECT_EQ(steps.options.train_steps, 5);
  EXPECT_TRUE(holds(core::join(steps.options.notes, "\n"), "--num_train_epochs has no effect"));
  const Words rhythm{"--eval_strategy",  "epoch", "--save_strategy", "epoch",
                     "--eval_data_path", "e"};
  EXPECT_TRUE(command(rhythm, {}).counts_epochs);
  EXPECT_EQ(command(rhythm, 7).options.eval_steps, 7);
  EXPECT_EQ(command(rhythm, 7).options.save_steps, 7);
  EXPECT_EQ(command(rhythm, 7).options.train_steps, 100);
}

// As argparse's float and int read them; published commands are full of "--weight_decay 0.".
TEST(TrainerFlags, NumbersMayBeWrittenAsInScripts) {
  for (const char* decay : {"0.", "+0", "-0.", "0e0"}) {
    EXPECT_EQ(options_of("{}", {"--weight_decay", decay}).optimizer.weight_decay, 0.0);
  }
  EXPECT_EQ(options_of("{}", {"--max_grad_norm", "1."}).gradient_clipping, 1.0);
  EXPECT_EQ(options_of("{}", {"--max_grad_norm", ".5"}).gradient_clipping, 0.5);
  EXPECT_EQ(options_of("{}", {"--early_stopping_threshold", "+0.1", "--early_stopping_patience",
                              "2", "--eval_data_path", "e"})
                .early_stopping_threshold,
            0.1);
  EXPECT_EQ(options_of("{}", {"--max_steps", "1_000"}).train_steps, 1000);
  EXPECT_EQ(options_of("{}", {"--max_steps", "+20"}).train_steps, 20);
  EXPECT_EQ(options_of("{}", {"--lora_r", "010", "--lora_dropout", ".1"}).lora.r, 10);
  for (const char* wrong : {"nan", "inf", "0x1", "1e", ".", "", "1,5", "1__0"}) {
    EXPECT_TRUE(holds(refused("{}", {"--weight_decay", wrong}), "--weight_decay must be a number"));
  }
  for (const char* whole : {"1e3", "1000.", "1.0e+3"}) {
    EXPECT_EQ(options_of("{}", {"--max_steps", whole}).train_steps, 1000) << whole;
  }
  EXPECT_EQ(options_of("{}", {"--max_steps", "30", "--save_steps", "0.1"}).save_steps, 3);
  EXPECT_EQ(options_of("{}", {"--max_steps", "31", "--save_steps", "0.1"}).save_steps, 4);
  for (const char* wrong : {"1.5", "1e-3", "1e30", "nan", "0x10", "_1"}) {
    EXPECT_TRUE(holds(refused("{}", {"--max_steps", wrong}), "must be a whole number"));
    EXPECT_TRUE(holds(refused("{}", {"--seed", wrong}), "--seed must be a whole number"));
  }
}

TEST(TrainerFlags, WhatIsNotThereSaysWhatToDo) {
  EXPECT_TRUE(holds(refused("{}", {"--num_train_epochs", "0"}), "must be greater than 0"));
  EXPECT_TRUE(holds(refused("{}", {"--max_steps", "-1"}),
                    "must be at least 1; correct it, or give "
                    "--num_train_epochs"));
  EXPECT_TRUE(holds(refused("{}", {"--load_best_model_at_end", "true"}), "need evaluations"));
  EXPECT_TRUE(holds(refused("{}", {"--early_stopping_patience", "2"}), "need evaluations"));
  EXPECT_TRUE(holds(refused("{}", {"--validation_file", "b", "--load_best_model_at_end",
                                   "--save_strategy", "no"}),
                    "needs checkpoints"));
  EXPECT_TRUE(
      holds(refused("{}", {"--metric_for_best_model", "f1"}), "must be one of loss, eval_"));
  EXPECT_TRUE(holds(refused("{}", {"--greater_is_better"}), "a loss is better when it is less"));
  EXPECT_TRUE(
      holds(refused("{}", {"--eval_strategy", "never"}), "must be one of steps, epoch, no"));
  EXPECT_EQ(options_of("{}", {"--fp16", "true"}).element, core::DType::kF16);
  EXPECT_EQ(options_of("{bfloat16: {}}", {"--bf16"}).element, core::DType::kBF16);
  EXPECT_TRUE(holds(refused("{}", {"--fp16", "--bf16"}), "exclude each other"));
  EXPECT_TRUE(
      holds(refused("{}", {"--learning_rate", "fast"}), "--learning_rate must be a number"));
  EXPECT_TRUE(holds(refused("{}", {"--warmup_ratio", "2"}), "must lie in [0, 1]"));
}

TEST(TrainerSchedules, RefuseWhatTransformersRefuses) {
  const auto said = [](const std::string& type, const std::string& kwargs) {
    return refused("{}", {"--lr_scheduler_type", type, "--lr_scheduler_kwargs", kwargs});
  };
  EXPECT_TRUE(holds(said("cosin", "{}"), "did you mean cosine?"));
  EXPECT_TRUE(holds(said("reduce_lr_on_plateau", "{}"), "must be one of linear, cosine"));
  EXPECT_TRUE(holds(said("linear", "{num_cycles: 2}"), "it has none"));
  EXPECT_TRUE(holds(said("cosine", "{warmup_steps: 2}"), "it has num_cycles"));
  EXPECT_TRUE(holds(said("cosine", "{num_cycles: \"two\"}"), "has a value of another kind"));
  EXPECT_TRUE(holds(said("cosine_with_min_lr", "{}"), "requires min_lr or min_lr_rate"));
  EXPECT_TRUE(holds(said("polynomial", "{lr_end: 1}"), "must be smaller than the learning rate"));
  EXPECT_TRUE(holds(said("warmup_stable_decay", "{}"), "requires num_decay_steps"));
  EXPECT_TRUE(holds(said("inverse_sqrt", "{timescale: 0}"), "timescale must be above 0"));
}

// tests/oracle/schedule_vectors.py writes the file, and compares it with transformers.
TEST(TrainerSchedules, EqualTransformers) {
  std::ifstream file(FM_SCHEDULES);
  std::string line;
  int schedules = 0;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name, base, warmup, total, kwargs, colon;
    words >> name >> base >> warmup >> total >> kwargs >> colon;
    ASSERT_EQ(colon, ":") << line;
    const TrainOptions at =
        options_of("{}", {"--lr_scheduler_type", name, "--learning_rate", base, "--warmup_steps",
                          warmup, "--max_steps", total, "--lr_scheduler_kwargs", kwargs});
    double expected = 0.0;
    for (std::int64_t applied = 0; words >> expected; ++applied) {
      const double got = optim::rates(at.scheduler, at.optimizer.lr, applied).lr;
      ASSERT_LE(std::abs(got - expected), 1e-12 * at.optimizer.lr) << line << "\nstep " << applied;
    }
    ++schedules;
  }
  EXPECT_EQ(schedules, 47);
}

}  // namespace
}  // namespace fm::cli
