// FMEngine's command line (cli/train.py, HfArgumentParser): names, defaults, ways to write them.
#include "cli/flags/arguments.h"

#include "cli/flags/flags.h"
#include "cli/flags/program_arguments.h"
#include "core/text.h"
#include "tests/cli/train_words.h"

namespace fm::cli {
namespace {

TEST(Arguments, DefaultsAreFmEngines) {
  const engine::TrainOptions options = parse({}).options;
  EXPECT_EQ(options.output_dir, "./output");
  EXPECT_EQ(options.max_seq_len, 128);
  EXPECT_EQ(options.train_steps, 100);
  EXPECT_EQ(options.eval_steps, 100);
  EXPECT_EQ(options.save_steps, 100);
  EXPECT_EQ(options.log_steps, 1);
  EXPECT_EQ(options.pipe_parallel_size, 1);
  EXPECT_EQ(options.model_parallel_size, 1);
  EXPECT_EQ(options.seed, 3407U);
  EXPECT_EQ(options.project_name, "fmengine");
  EXPECT_EQ(options.experiment_name, "experiment");
  EXPECT_FALSE(options.pretrain);
  EXPECT_FALSE(options.dry_run);
  EXPECT_EQ(options.resume, checkpoint::Resume::kAuto);
  EXPECT_EQ(options.timeout_ms, 600'000);
}

TEST(Arguments, DefaultsOfOurOwnFlags) {
  const engine::TrainOptions options = parse({}).options;
  EXPECT_EQ(options.packing, data::Packing::kConcat);
  EXPECT_EQ(options.data_format, data::DataFormat::kAuto);
  EXPECT_EQ(options.text_field, "text");
  EXPECT_FALSE(options.text_first);
  EXPECT_EQ(options.schedule->name, "1f1b");
  EXPECT_EQ(options.loss_reduction, engine::LossReduction::kToken);
  EXPECT_EQ(options.device.kind, engine::DeviceKind::kCpu);
  EXPECT_EQ(options.keep_last, 0);
  EXPECT_EQ(options.eval_batches, 0);
}

// A parser that matches words with a recursive regular expression stops at the line end, and ends
// the process at some ten thousand characters.
TEST(Arguments, AValueMayHoldAnythingAndBeLong) {
  const std::string long_text(1'000'000, 'x');
  for (const std::string& value :
       {std::string("two\nlines"), std::string("cr\r"), std::string("a = b"), std::string("-- x"),
        std::string(), long_text}) {
    EXPECT_EQ(parse({"--project_name=" + value}).options.project_name, value);
    const GenerateCommand command = parse_generate_command(Words{"--ckpt=d", "--prompt=" + value});
    EXPECT_EQ(command.options.prompt, value);
  }
  EXPECT_EQ(parse({"--project_name", long_text}).options.project_name, long_text);
}

TEST(Arguments, ModelAndDataFlagsReachTheirOptions) {
  const engine::TrainOptions options =
      parse_command(Words{"--init_ckpt", "dir", "--pretrain", "true", "--data_path=d",
                          "--data_format", "tokens_i32", "--packing=one_document", "--text_field",
                          "body", "--max_seq_len", "256", "--seed=7", "--eval_data_path", "e",
                          "--eval_batches", "3", "--allow-repeat"})
          .options;
  EXPECT_EQ(options.init_ckpt, "dir");
  EXPECT_TRUE(options.pretrain);
  EXPECT_EQ(options.data_path, Words{"d"});
  EXPECT_EQ(options.data_format, data::DataFormat::kTokens);
  EXPECT_EQ(options.packing, data::Packing::kOneDocument);
  EXPECT_EQ(options.text_field, "body");
  EXPECT_TRUE(options.text_first);
  EXPECT_EQ(options.max_seq_len, 256);
  EXPECT_EQ(options.seed, 7U);
  EXPECT_EQ(options.eval_data_path, Words{"e"});
  EXPECT_EQ(options.eval_batches, 3);
  EXPECT_TRUE(options.allow_repeat);
  EXPECT_FALSE(parse({}).options.allow_repeat);
  EXPECT_EQ(parse({}).options.model_config, "m.json");
}

TEST(Arguments, LengthAndLayoutFlagsReachTheirOptions) {
  const engine::TrainOptions options = parse({"--train_steps",
                                              "11",
                                              "--eval_steps",
                                              "12",
                                              "--save_steps",
                                              "13",
                                              "--log_steps",
                                              "14",
                                              "--pipe_parallel_size",
                                              "2",
                                              "--schedule",
                                              "gpipe",
                                              "--no_decay",
                                              "norm,embedding",
                                              "--loss_reduction",
                                              "mean_of_means",
                                              "--timeout_s",
                                              "5",
                                              "--grace_s",
                                              "90",
                                              "--device",
                                              "fake",
                                              "--device_seed",
                                              "17"})
                                           .options;
  EXPECT_EQ(options.train_steps, 11);
  EXPECT_EQ(options.eval_steps, 12);
  EXPECT_EQ(options.save_steps, 13);
  EXPECT_EQ(options.log_steps, 14);
  EXPECT_EQ(options.pipe_parallel_size, 2);
  EXPECT_EQ(options.schedule->name, "gpipe");
  EXPECT_TRUE(options.no_decay.norm);
  EXPECT_FALSE(options.no_decay.bias);
  EXPECT_TRUE(options.no_decay.embedding);
  EXPECT_EQ(options.loss_reduction, engine::LossReduction::kMeanOfMeans);
  EXPECT_EQ(options.timeout_ms, 5000);
  EXPECT_EQ(options.grace_s, 90);
  EXPECT_EQ(parse({}).options.grace_s, std::nullopt);
  EXPECT_EQ(options.device.kind, engine::DeviceKind::kFake);
  EXPECT_EQ(options.device.seed, 17U);
}

TEST(Arguments, SequenceFlagsReachTheirOptions) {
  using engine::SequenceMethod;
  const engine::TrainOptions options =
      parse({"--sequence_parallel_size=4", "--sequence_parallel=usp", "--ulysses_degree=2"})
          .options;
  EXPECT_EQ(options.sequence_parallel_size, 4);
  EXPECT_EQ(options.sequence_method, SequenceMethod::kUsp);
  EXPECT_EQ(options.ulysses_degree, 2);
  EXPECT_EQ(parse({}).options.sequence_method, SequenceMethod::kAuto);
  EXPECT_TRUE(holds(refusal({"--sequence_parallel=star"}), "must be one of ulysses, ring, usp;"));
}

TEST(Arguments, OutputFlagsReachTheirOptions) {
  const engine::TrainOptions options =
      parse({"--output_dir", "o", "--resume", "a/b", "--keep_last", "4", "--dry_run",
             "--project_name", "p", "--experiment_name", "x", "--dump_gradients", "g.safetensors"})
          .options;
  EXPECT_EQ(options.output_dir, "o");
  EXPECT_EQ(options.resume, checkpoint::Resume::kPath);
  EXPECT_EQ(options.resume_path, "a/b");
  EXPECT_EQ(options.keep_last, 4);
  EXPECT_TRUE(options.dry_run);
  EXPECT_EQ(options.project_name, "p");
  EXPECT_EQ(options.experiment_name, "x");
  EXPECT_EQ(options.dump_gradients, "g.safetensors");
  EXPECT_EQ(parse({"--resume", "must"}).options.resume, checkpoint::Resume::kMust);
  EXPECT_EQ(parse({"--resume=never"}).options.resume, checkpoint::Resume::kNever);
}

TEST(Arguments, TheRootOfTheFileSystemIsNoOutputFolder) {
  for (const char* root : {"/", "//", "/dev/.."}) {
    EXPECT_TRUE(holds(refusal({"--output_dir", root}), "must not be the root of the file system"));
  }
}

TEST(Arguments, TraceFlagsReachTheirOptions) {
  const auto steps_of = [](const char* words) {
    const engine::TraceSteps steps =
        parse({"--trace=t.json", "--trace_steps", words}).options.trace_steps;
    return core::concat(steps.first, " to ", steps.last);
  };
  EXPECT_EQ(parse({}).options.trace, "");
  EXPECT_EQ(parse({"--trace", "t.json"}).options.trace, "t.json");
  EXPECT_EQ(parse({"--trace", "t.json"}).options.trace_steps.first, 3);
  EXPECT_EQ(parse({"--trace", "t.json"}).options.trace_steps.last, 5);
  EXPECT_EQ(steps_of("7"), "7 to 7");
  EXPECT_EQ(steps_of("10-12"), "10 to 12");
  for (const char* const bad : {"", "0-2", "a", "3-", "-3", "1-2-3", "1.5", "3 - 4"}) {
    EXPECT_TRUE(holds(refusal({"--trace=t.json", core::concat("--trace_steps=", bad)}),
                      "--trace_steps must be two step numbers"))
        << bad;
  }
  EXPECT_TRUE(holds(refusal({"--trace=t.json", "--trace_steps=5-3"}), "must not end before"));
  EXPECT_TRUE(holds(refusal({"--trace_steps=3-5"}), "--trace_steps belongs to --trace"));
  EXPECT_TRUE(holds(refusal({"--trace="}), "--trace must name a file"));
}

TEST(Arguments, RankFlagsAreKeptForTheLauncher) {
  const Command command = parse({"--rank", "1", "--world_size", "2", "--local_rank=0"});
  EXPECT_EQ(command.rank, "1");
  EXPECT_EQ(command.world_size, "2");
  EXPECT_EQ(command.local_rank, "0");
  EXPECT_EQ(command.action, Action::kTrain);
  EXPECT_FALSE(parse({}).rank.has_value());
  EXPECT_FALSE(parse({"--local_rank=-1"}).local_rank.has_value());  // "started by no launcher"
  EXPECT_EQ(parse_command(Words{"--report", "--rank=3"}).rank, "3");
}

TEST(Arguments, RankFlagsAreWholeNumbers) {
  for (const char* const name : {"rank", "local_rank", "world_size", "num_workers"}) {
    for (const char* const bad : {"abc", "1.5", "", "-2", "99999999999"}) {
      if (std::string_view(name) == "num_workers" && *bad == '9') continue;
      EXPECT_TRUE(holds(refusal({core::concat("--", name, "=", bad)}),
                        core::concat("--", name, " must be a whole number")));
    }
  }
  EXPECT_TRUE(holds(refusal({"--world_size=0"}), "--world_size must be a whole number"));
  EXPECT_TRUE(holds(refusal({"--rank=-1"}), "--rank must be a whole number"));
}

TEST(Arguments, ChooseTheAction) {
  EXPECT_EQ(parse({"--plan"}).action, Action::kPlan);
  const Command plan = parse({"--plan", "--plan_ranks", "8", "--json"});
  EXPECT_TRUE(plan.json);
  EXPECT_EQ(plan.plan_ranks, 8);
  EXPECT_EQ(parse_command(Words{"--report"}).action, Action::kReport);
  EXPECT_EQ(parse_command(Words{"--help"}).action, Action::kHelp);
  EXPECT_EQ(parse_command(Words{"-h"}).action, Action::kHelp);
  EXPECT_EQ(parse_command(Words{"--version"}).action, Action::kVersion);
}

TEST(Arguments, WhatIsNotThereYetIsRefused) {
  EXPECT_EQ(parse({"--model_parallel_size", "2"}).options.model_parallel_size, 2);
  EXPECT_TRUE(holds(refusal({"--window_size", "4096"}), "sliding_window into config.json"));
  EXPECT_TRUE(holds(refusal({"--attention", "torch"}), "is in tests and benchmarks only now"));
  EXPECT_EQ(parse({"--attention", "own"}).options.train_steps, parse({}).options.train_steps);
  EXPECT_TRUE(holds(refusal({"--precision", "int8"}),
                    "--precision must be fp32, bf16 or fp16; correct it"));
}

TEST(Arguments, FlagsWithoutEffectSaySo) {
  const Command command = parse({"--use_flash_attn", "true", "--use_fused_ops", "--num_workers",
                                 "4", "--use_deepspeed", "--res_dir", "r"});
  const std::string notes = core::join(command.options.notes, "\n");
  for (const char* name : {"use_flash_attn", "use_fused_ops", "num_workers", "res_dir"}) {
    EXPECT_TRUE(holds(notes, std::string("--") + name + " has no effect: "));
  }
  EXPECT_EQ(notes.find("--use_deepspeed "), std::string::npos);
}

TEST(Arguments, TheTrainersSwitchesForCpusSayTheDevice) {
  for (const char* const name : {"--use_cpu", "--no_cuda"}) {
    EXPECT_EQ(parse({name}).options.device.kind, engine::DeviceKind::kCpu);
    EXPECT_EQ(parse({name, "true", "--device=cpu"}).options.device.kind, engine::DeviceKind::kCpu);
    EXPECT_EQ(parse({name, "False", "--device=cuda"}).options.device.kind,
              engine::DeviceKind::kCuda);
    EXPECT_EQ(refusal({name, "true", "--device", "cuda"}),
              "--device must be said once, and --use_cpu and --no_cuda say --device cpu; keep one "
              "(cuda, cpu)");
    EXPECT_TRUE(holds(refusal({"--device", "auto", name}), "keep one (auto, cpu)"));
    EXPECT_TRUE(holds(refusal({name, "x"}), "cannot be honoured, only true, false can"));
  }
}

TEST(Arguments, Tf32IsRefusedWhereGpusComputeInFp32) {
  const char* const kRefused = "--tf32 must be false where GPUs compute in fp32";
  EXPECT_TRUE(holds(refusal({"--device=cuda", "--tf32", "True"}), kRefused));
  EXPECT_TRUE(holds(refusal({"--tf32", "--device=gpu:1", "--precision=fp32"}), kRefused));
  EXPECT_EQ(refusal({"--device=cuda", "--tf32", "False"}), "accepted");
  for (const Words& words : {Words{"--tf32"}, Words{"--tf32", "--device=cuda", "--bf16"},
                             Words{"--tf32", "--device=cuda", "--precision=fp16"}}) {
    EXPECT_TRUE(holds(core::join(parse(words).options.notes, "\n"),
                      "--tf32 has no effect: products of fp32 do not round what they read"));
  }
  EXPECT_EQ(core::join(parse({"--tf32=false"}).options.notes, "\n").find("tf32"),
            std::string::npos);
}

TEST(Arguments, WrongValuesNameTheFlag) {
  EXPECT_TRUE(holds(refusal({"--train_steps", "ten"}), "--train_steps must be a whole number"));
  EXPECT_TRUE(holds(refusal({"--train_steps", "0"}), "at least 1"));
  EXPECT_TRUE(holds(refusal({"--train_steps", "5e-1"}), "--train_steps must be a whole number"));
  EXPECT_TRUE(holds(refusal({"--seed", "-1"}), "--seed must be a whole number"));
  EXPECT_TRUE(holds(refusal({"--seed", "99999999999999999999"}), "--seed must be"));
  EXPECT_TRUE(holds(refusal({"--schedule", "1f1bb"}), "did you mean 1f1b?"));
  EXPECT_TRUE(
      holds(refusal({"--data_format", "xml"}), "one of auto, jsonl, text, csv, tsv, parquet, "));
  EXPECT_TRUE(holds(refusal({"--no_decay", "norms"}), "none or a list of norm, bias, embedding"));
  EXPECT_TRUE(holds(refusal({"--resume="}), "--resume must be"));
  EXPECT_TRUE(holds(refusal({"--json"}), "--json belongs to --plan"));
  EXPECT_TRUE(holds(refusal({"--plan_ranks", "8"}), "--plan_ranks belongs to --plan"));
}

TEST(Arguments, AModelAndDataAreRequired) {
  EXPECT_TRUE(holds(refusal_of([] { parse_command(Words{kData}); }), "a model is required"));
  EXPECT_TRUE(holds(refusal_of([] { parse_command(Words{kModel}); }), "training data is required"));
  EXPECT_EQ(refusal_of([] { parse_command(Words{kModel, "--plan"}); }), "accepted");
  EXPECT_TRUE(holds(refusal({"--init_ckpt", "d"}), "exclude each other"));
}

TEST(Arguments, AFlagThatIsGivenTwiceMustHaveOneValue) {
  EXPECT_EQ(refusal({"--seed", "1", "--train_steps", "9", "--seed=2"}),
            "--seed is given twice; keep one (1, 2)");
  EXPECT_TRUE(holds(refusal({"--plan", "--no-decay", "", "--no_decay=norm"}), "(, norm)"));
  EXPECT_EQ(parse({"--seed", "1", "--seed=1"}).options.seed, 1U);
  EXPECT_TRUE(holds(refusal_of([] {
                      parse_generate_command(Words{"--top_k=1", "--top_k=2"});
                    }),
                    "--top_k is given twice"));
}

// deepspeed's launcher writes --local_rank=N before the words of the user.
TEST(Arguments, ALaterLaunchFlagWins) {
  EXPECT_EQ(parse({"--local_rank=0", "--local_rank=1"}).local_rank, "1");
  EXPECT_EQ(parse({"--local_rank=0", "--local_rank=-1"}).local_rank, std::nullopt);
}

TEST(Arguments, WithoutAConfigurationTheDefaultsAreSaid) {
  const engine::TrainOptions options = parse({}).options;
  EXPECT_EQ(options.batch.micro_batch, 8);
  EXPECT_TRUE(holds(core::join(options.notes, "\n"), "no --deepspeed_config: ZeRO 0"));
}

TEST(Arguments, TheConfigurationMayBeTheTextItself) {
  const Command command = parse({"--deepspeed_config", "{train_batch_size: 4}"});
  EXPECT_EQ(command.options.batch.train_batch, 4);
}

TEST(Arguments, HelpNamesEveryFlagAndItsDefault) {
  const std::string help = train_help_text();
  for (const FlagRow& flag : train_flags()) EXPECT_TRUE(holds(help, std::string("--") + flag.name));
  EXPECT_TRUE(holds(help, "(default: 3407)"));
}

TEST(Arguments, HelpNamesEveryVariable) {
  const std::string help = train_help_text();
  EXPECT_GE(train_variables().size(), 5U);
  for (const VariableRow& variable : train_variables()) {
    EXPECT_TRUE(holds(help, core::concat("\n      ", variable.name, " "))) << help;
    EXPECT_TRUE(holds(help, core::concat(" ", variable.help, "\n"))) << help;
  }
}

TEST(Arguments, AWordBehindABooleanIsItsValue) {
  EXPECT_TRUE(
      holds(refusal({"--shm", "maybe"}), "--shm must be true or false; correct it (maybe)"));
}

}  // namespace
}  // namespace fm::cli
