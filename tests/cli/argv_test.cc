// The words of a command line: ways to write them, flags of other programs.
#include "cli/flags/argv.h"

#include "cli/flags/arguments.h"
#include "cli/flags/flags.h"
#include "cli/flags/program_arguments.h"
#include "core/text.h"
#include "tests/cli/train_words.h"

namespace fm::cli {
namespace {

std::string normal(const Words& words) {
  return core::join(normalise_argv(words, train_flags()).words, " ");
}

TEST(Argv, BooleansMayBeWrittenInEveryWay) {
  struct Row {
    Words words;
    const char* expected;
  };
  for (const Row& row : {Row{{"--dry_run"}, "true"}, Row{{"--dry_run", "true"}, "true"},
                         Row{{"--dry_run=True"}, "true"}, Row{{"--dry-run", "yes"}, "true"},
                         Row{{"--dry_run", "t"}, "true"}, Row{{"--dry_run=y"}, "true"},
                         Row{{"--dry_run", "1"}, "true"}, Row{{"--dry_run", "false"}, "false"},
                         Row{{"--dry_run=False"}, "false"}, Row{{"--dry-run=no"}, "false"},
                         Row{{"--dry_run", "f"}, "false"}, Row{{"--dry_run", "n"}, "false"},
                         Row{{"--dry_run=0"}, "false"}}) {
    EXPECT_EQ(normal(row.words), std::string("--dry_run=") + row.expected);
  }
}

TEST(Argv, ABooleanDoesNotSwallowTheNextFlag) {
  EXPECT_EQ(normal({"--use_flash_attn", "--seed", "3"}), "--use_flash_attn=true --seed=3");
  EXPECT_EQ(normal({"--use_flash_attn", "false", "--plan"}), "--use_flash_attn=false --plan=true");
}

TEST(Argv, DashesAndUnderscoresAreAlikeInNamesOnly) {
  EXPECT_EQ(normal({"--local-rank=1"}), "--local_rank=1");
  EXPECT_EQ(normal({"--local_rank=1"}), "--local_rank=1");
  EXPECT_EQ(normal({"--output-dir", "my-run_1"}), "--output_dir=my-run_1");
  EXPECT_EQ(normal({"--output_dir=a=b"}), "--output_dir=a=b");
}

TEST(Argv, DeepspeedWithoutAFileHasNoEffect) {
  EXPECT_EQ(normal({"--deepspeed", "--seed", "3"}), "--deepspeed=true --seed=3");
  EXPECT_EQ(normal({"--deepspeed"}), "--deepspeed=true");
  EXPECT_EQ(refusal({"--deepspeed"}), "accepted");
  // A file is Hugging Face's Trainer's way to name the configuration.
  EXPECT_EQ(normal({"--deepspeed", "ds.json"}), "--deepspeed_config=ds.json");
  EXPECT_EQ(normal({"--deepspeed=ds.json"}), "--deepspeed_config=ds.json");
}

TEST(Argv, KeysOfTheJsonAreSentThere) {
  const auto advice = [](const std::string& flag, const std::string& path) {
    return flag + " is a key of the DeepSpeed JSON (" + path +
           "); set it in --deepspeed_config FILE";
  };
  EXPECT_EQ(refusal({"--momentum=0.9"}), advice("--momentum", "optimizer.params.momentum"));
  EXPECT_EQ(refusal({"--stage", "2"}), advice("--stage", "zero_optimization.stage"));
  EXPECT_EQ(refusal({"--zenflow"}), advice("--zenflow", "zero_optimization.zenflow"));
  // fmengine-generate reads no such file.
  EXPECT_TRUE(
      holds(refusal_of([] { parse_generate_command(Words{"--lr=1"}); }), "unknown flag --lr"));
}

// Megatron-LM's and torchtitan's names; the nearest of ours would be another thing.
TEST(Argv, FlagsOfOtherProgramsAreAnsweredWithOurs) {
  const auto advice = [](const std::string& flag, const std::string& ours) {
    EXPECT_EQ(refusal_of([&] {
                normal({flag, "2"});
              }),
              flag + " is a flag of other programs; " + ours);
  };
  advice("--tensor-model-parallel-size", "use --model_parallel_size");
  advice("--pipeline-model-parallel-size", "use --pipe_parallel_size");
  advice("--context-parallel-size", "use --sequence_parallel_size");
  advice("--parallelism.pipeline_parallel_degree", "use --pipe_parallel_size");
  advice("--tp", "use --model_parallel_size");
  advice("--zero_stage", "set zero_optimization.stage in --deepspeed_config FILE");
  EXPECT_TRUE(holds(refusal_of([] { parse_generate_command(Words{"--tp=2"}); }), "see --help"));
  EXPECT_TRUE(holds(refusal_of([] { parse({"--sequence_parallel=true"}); }),
                    "Megatron-LM's switch of that name is --megatron_sequence_parallel (true)"));
}

// The flags of Hugging Face's run_clm.py that say nothing about the numbers.
TEST(Argv, FlagsThatChangeNoNumberAreTakenAndSaid) {
  const NormalLine line = normalise_argv(
      Words{"--do_train", "--no_cuda", "False", "--seed", "4", "--optim=adamw_torch",
            "--push_to_hub", "False", "--dataloader-num-workers", "4", "--ddp_timeout", "1800",
            "--overwrite_output_dir", "--remove_unused_columns=false", "--logging_strategy",
            "steps", "--per_device_eval_batch_size", "2"},
      train_flags());
  EXPECT_EQ(line.words, Words{"--seed=4"});
  ASSERT_EQ(line.notes.size(), 10U);
  EXPECT_TRUE(line.notes[0].starts_with("--do_train has no effect: ")) << line.notes[0];
  EXPECT_EQ(line.notes[1], "--no_cuda has no effect: --device says what computes");
  EXPECT_EQ(parse({"--do_train", "--dataset_num_proc", "2"}).options.notes[1],
            "--dataset_num_proc has no effect: text is tokenized by all --threads");
}

TEST(Argv, ValuesThatWouldChangeTheRunAreRefused) {
  EXPECT_EQ(refusal_of([] {
              normal({"--optim", "adafactor"});
            }),
            "--optim adafactor cannot be honoured, only adamw_torch, adamw_torch_fused, adamw_hf, "
            "adamw_apex_fused, adamw_torch_xla, adamw_torch_npu_fused, adamw_torch_8bit, "
            "adamw_torch_4bit, adamw_anyprecision, adamw_bnb_8bit, adamw_8bit, paged_adamw, "
            "paged_adamw_32bit, paged_adamw_8bit can: without an optimizer block in "
            "--deepspeed_config FILE it is AdamW, with states in fp32; leave the flag out, and for "
            "Lion, Adagrad, Lamb, Muon or SGD write \"optimizer\": {\"type\": \"SGD\"} there");
  for (const Words& words :
       {Words{"--push_to_hub"}, Words{"--do_train", "False"}, Words{"--label_smoothing_factor=0.1"},
        Words{"--group_by_length", "true"}}) {
    EXPECT_TRUE(holds(refusal_of([&] { normal(words); }), "cannot be honoured, only")) << words[0];
  }
}

// The command line of an example script, which has several.
TEST(Argv, AllUnknownFlagsAreNamedAtOnce) {
  const std::string refusal = refusal_of([] {
    normal({"--batch_size", "512", "--seed", "4", "--dataset_name", "wikitext", "--zzzz",
            "--do_predict", "--do_eval"});
  });
  EXPECT_EQ(refusal,
            "4 flags are not understood; correct them\n"
            "  --batch_size is a flag of other programs; use --per_device_train_batch_size for the "
            "rows of a rank, or "
            "train_batch_size in --deepspeed_config FILE for those of a step\n"
            "  --dataset_name is a flag of other programs; nothing is downloaded; fetch the "
            "files (hf download, or load_dataset(...).save_to_disk) and name them with "
            "--data_path\n"
            "  unknown flag --zzzz; see --help\n"
            "  --do_predict true cannot be honoured, only false can: fmengine-generate continues "
            "texts");
}

// The nearest name would have been --per_device_train_batch_size, which changes the training.
TEST(Argv, NoHintWouldChangeTheTraining) {
  const NormalLine line = normalise_argv(Words{"--eval_batch_size", "2"}, train_flags());
  EXPECT_TRUE(line.words.empty());
  EXPECT_TRUE(holds(line.notes[0], "does not depend"));
}

TEST(Argv, UnknownFlagsAreRefusedWithTheNearest) {
  EXPECT_EQ(refusal_of([] {
              normal({"--train_step", "5"});
            }),
            "unknown flag --train_step; did you mean --train_steps?");
  EXPECT_EQ(refusal_of([] { normal({"--deepspeed-conifg=x"}); }),
            "unknown flag --deepspeed-conifg; did you mean --deepspeed_config?");
  EXPECT_TRUE(holds(refusal_of([] { normal({"--zzzzzzzz"}); }), "see --help"));
}

TEST(Argv, StrayWordsAndMissingValuesAreRefused) {
  EXPECT_TRUE(holds(refusal_of([] { normal({"train"}); }), "stray word (train)"));
  EXPECT_TRUE(holds(refusal_of([] { normal({"--seed", "1", "maybe"}); }), "stray word (maybe)"));
  EXPECT_TRUE(holds(refusal_of([] { normal({"--seed"}); }), "--seed needs a value"));
  EXPECT_TRUE(holds(refusal_of([] { normal({"--seed", "--plan"}); }), "--seed needs a value"));
  EXPECT_TRUE(holds(refusal_of([] { normal({"--plan=perhaps"}); }), "must be true or false"));
  EXPECT_TRUE(holds(refusal_of([] {
                      normal({"--data_path", "-- select"});
                    }),
                    "or --data_path=VALUE when it starts with --"));
}

TEST(Argv, StrayWordsAreNamedWithTheOthers) {
  EXPECT_EQ(refusal_of([] {
              normal({"--zzzz", "--seed", "1", "maybe", "--data_path"});
            }),
            "3 flags are not understood; correct them\n"
            "  unknown flag --zzzz; see --help\n"
            "  only flags (--name value) are understood; remove or quote the stray word (maybe)\n"
            "  --data_path needs a value; write --data_path VALUE, or --data_path=VALUE when it "
            "starts with --");
}

TEST(Argv, HelpAndVersionAreKnownByName) {
  EXPECT_EQ(normal({"-h", "--help", "--version"}), "--help --help --version");
  EXPECT_EQ(normal({"--help=5", "--version=true"}), "--help --version");
}

}  // namespace
}  // namespace fm::cli
