// What programs write: files that flags name, standard output, and what is left of it all.
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <csignal>

#include "tests/cli/program_case.h"

namespace fm::cli {
namespace {

using ProgramOutputs = Programs;

// A device of the numbers of /dev/null in the test's folder; needs root, as in containers.
TEST_F(ProgramOutputs, NoOutputTakesThePlaceOfADevice) {
  const fs::path device = folder_ / "null.prom";
  if (::mknod(device.c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0) {
    GTEST_SKIP() << "only root makes devices";
  }
  const std::string train = trained();
  write("prompts.txt", "int\n");
  const auto expect_device = [&](const std::string& command, int code) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, code) << command << "\n" << outcome.err;
    EXPECT_TRUE(fs::is_character_file(device)) << command;
    EXPECT_EQ(names(), "corpus.jsonl model.json null.prom o prompts.txt") << command;
  };
  const std::string plan = " --plan --deepspeed_config " + kConfigs + "zero0.json --model_config " +
                           tiny_model() + " --plan_ranks 1";
  expect_device(kReport + " o --out null.prom", 0);
  expect_device(kTrain + plan + " --svg null.prom", 0);
  expect_device(kTrain + plan + " --csv null.prom", 0);
  expect_device(kGenerate + " --ckpt o/hf --prompt_file prompts.txt --max_new_tokens 1 --output " +
                    "null.prom",
                0);
  expect_device(kExport + " o null.prom", 10);
  expect_device(kTokenize + " --tokenizer o/hf --data_path corpus.jsonl --out null.prom", 10);
  fs::remove_all(folder_ / "o");
  trained("--trace null.prom --trace_steps 1-1 --prometheus_file null.prom");
  EXPECT_TRUE(fs::is_character_file(device));
  fs::remove_all(folder_ / "o");
  expect_one_line(run(train + "--dump_gradients null.prom"), 10, "must name a regular file");
  expect_one_line(run(train + "--dump_gradients ."), 10, "must name a regular file");
  EXPECT_TRUE(fs::is_character_file(device));
  fs::remove_all(folder_ / "o");
  fs::create_directories(folder_ / "o");
  fs::rename(device, folder_ / "o" / "hf");
  expect_one_line(run(train), 10, "o/hf: it is no folder");
  EXPECT_TRUE(fs::is_character_file(folder_ / "o" / "hf"));
}

TEST_F(ProgramOutputs, StandardOutputThatTakesNothingIsAnError) {
  const std::string train = trained();
  write("prompts.txt", "int\nvoid\n");
  const std::string generate = kGenerate + " --ckpt o/hf --max_new_tokens 2 ";
  const std::string plan = kTrain + " --deepspeed_config " + kConfigs +
                           "zero0.json --plan_ranks 1 --model_config " + tiny_model() + " ";
  for (const std::string& command : {generate + "--prompt int",
                                     generate + "--prompt_file prompts.txt",
                                     generate + "--score prompts.txt",
                                     kReport + " o --text",
                                     plan + "--plan",
                                     plan + "--plan --json",
                                     plan + "--print_config",
                                     kTrain + " --report",
                                     kTrain + " --help",
                                     kTrain + " --version",
                                     kGenerate + " --help",
                                     kGenerate + " --version",
                                     kExport + " --help",
                                     kExport + " --version",
                                     kTokenize + " --help",
                                     kTokenize + " --version",
                                     kReport + " --help",
                                     kReport + " --version",
                                     kAny + " --help",
                                     kAny + " --version"}) {
    SCOPED_TRACE(command);
    expect_one_line(run("{ " + command + " > /dev/full; }"), 26, "No space left on device");
    expect_one_line(run("{ " + command + " >&-; }"), 26, "Bad file descriptor");
  }
  // Its log is no result.
  for (const char* closed : {"> /dev/full", ">&-"}) {
    fs::remove_all(folder_ / "o");
    EXPECT_EQ(run("{ " + train + closed + "; }").code, 0) << closed;
  }
  EXPECT_TRUE(fs::exists(folder_ / "o" / "hf" / "model.safetensors"));
  // Whoever reads may have seen enough.
  const Outcome quiet = run("bash -c '" + kTrain + " --help | true; exit ${PIPESTATUS[0]}'");
  EXPECT_TRUE(quiet.code == 141 || quiet.code == 0) << quiet.code;
  EXPECT_EQ(quiet.err, "");
}

// At a fault point, so that the signal comes in the midst of the work on any machine.
TEST_F(ProgramOutputs, WhatIsInterruptedLeavesNothing) {
  trained();
  const std::string before = names();
  const std::string tokenize =
      kTokenize + " --tokenizer o/hf --data_path corpus.jsonl --data_format megatron --out out";
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string action = ",action=signal:" + std::to_string(signal) + " ";
    // A job in the background of a script ignores some of them.
    const std::string fault = "env --default-signal=INT,HUP FME_FAULT=point=";
    const Outcome exported = run(fault + "export.tensor" + action + kExport + " o out");
    EXPECT_EQ(exported.code, 128 + signal) << exported.err;
    EXPECT_NE(exported.err.find("nothing is left"), std::string::npos) << exported.err;
    EXPECT_EQ(names(), before);
    const Outcome made = run(fault + "tokenize.lines" + action + tokenize);
    EXPECT_EQ(made.code, 128 + signal) << made.err;
    EXPECT_NE(made.err.find("nothing is left"), std::string::npos) << made.err;
    EXPECT_EQ(names(), before);
  }
}

TEST_F(ProgramOutputs, WhatAKilledProgramLeftGoesWithTheNext) {
  trained();
  const std::string before = names();
  EXPECT_EQ(run("FME_FAULT=point=export.tensor,action=kill " + kExport + " o out").code, 137);
  EXPECT_NE(names().find(".tmp-out-"), std::string::npos) << names();
  EXPECT_EQ(run(kExport + " o out").code, 0);
  EXPECT_EQ(names(), before + " out");
  EXPECT_EQ(run(kGenerate + " --ckpt out --prompt int --max_new_tokens 1").code, 0);
}

// A limit of 1 or 2 blocks: the page, the model and the lines have more.
TEST_F(ProgramOutputs, AFileThatMayNotGrowIsAnErrorAndNotASignal) {
  trained();
  const std::string before = names();
  const auto limited = [&](const std::string& command) {
    return run("{ ulimit -f 1; " + command + "; }");
  };
  const auto expect_too_large = [&](const Outcome& outcome, const std::string& path) {
    EXPECT_EQ(outcome.code, 26) << outcome.err;
    EXPECT_NE(outcome.err.find("File too large"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(path), std::string::npos) << outcome.err;
  };
  expect_too_large(limited(kExport + " o out"), "out");
  expect_too_large(limited(kReport + " o --out page.html"), "page.html");
  EXPECT_EQ(names(), before);
  std::string prompts;
  for (int i = 0; i < 40; ++i) prompts += "int value of a prompt\n";
  write("prompts.txt", prompts);
  expect_too_large(limited(kGenerate + " --ckpt o/hf --prompt_file prompts.txt --output " +
                           "lines.jsonl --max_new_tokens 1"),
                   "lines.jsonl");
}

// One line and some MB, within the time of a plan.
TEST_F(ProgramOutputs, AbsurdSizesAreRefusedWithoutTheirMemory) {
  write("absurd.json", R"({"model_type": "llama", "vocab_size": 300, "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "head_dim": 1000000000})");
  const std::string words = kTrain + " --deepspeed_config " + kConfigs +
                            "zero0.json --model_config absurd.json --data_path " + tiny_corpus() +
                            " --output_dir o --max_seq_len 32 --train_steps 1";
  expect_one_line(run("{ ulimit -v 4000000; " + words + "; }"), 25, "memory must hold");
}

}  // namespace
}  // namespace fm::cli
