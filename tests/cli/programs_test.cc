// The built programs as a user meets them: words in, text and an exit code out.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/program_case.h"
#include "tests/comm/free_port.h"

namespace fm::cli {
namespace {

TEST_F(Programs, HelpVersionAndReportSucceed) {
  EXPECT_NE(run(kTrain + " --help").out.find("--deepspeed_config"), std::string::npos);
  EXPECT_EQ(run(kTrain + " --help").code, 0);
  EXPECT_TRUE(run(kTrain + " --version").out.starts_with("fmengine "));
  EXPECT_EQ(run(kGenerate + " --help").code, 0);
  const Outcome report = run(kTrain + " --report");
  EXPECT_EQ(report.code, 0);
  for (const char* line :
       {"CPU ", "SIMD ", "kernels ", "GEMM ", "GEMM bf16 ", "threads ", "affinity ", "RAM ",
        "MPI        Open MPI ", "attention  own (", "LibTorch   2."}) {
    EXPECT_NE(report.out.find(line), std::string::npos) << line;
  }
}

TEST_F(Programs, WrongWordsGiveOneLineAndCodeTen) {
  expect_one_line(run(kTrain + " --train_step 5"), 10, "did you mean --train_steps?");
  expect_one_line(run(kGenerate + " --prompts x"), 10, "did you mean --prompt?");
}

TEST_F(Programs, WrongConfigurationsGiveOneLineAndCodeTen) {
  const std::string plan =
      kTrain + " --plan --plan_ranks 2 --model_config " + tiny_model() + " --deepspeed_config ";
  expect_one_line(run(plan + "missing.json"), 10, "missing.json");
  expect_one_line(run(plan + write("a.json", "{\"zero_optimization\": {\"stagee\": 1}}")), 10,
                  "did you mean \"stage\"?");
  expect_one_line(
      run(plan + write("b.json", "{\"train_batch_size\": 1,\n\"train_batch_size\": 2}")), 10,
      "Duplicate keys in DeepSpeed config: ['train_batch_size']");
  expect_one_line(run(plan + write("c.json",
                                   "{\"train_batch_size\": 10, "
                                   "\"train_micro_batch_size_per_gpu\": 3}")),
                  10, "10 != 3 * 1 * 2");
  expect_one_line(run(plan + write("d.json", "{\"amp\": {\"enabled\": true}}")), 10,
                  "--precision bf16, fp16 or fp32");
}

TEST_F(Programs, MissingFilesAreNamed) {
  const std::string train =
      kTrain + " --deepspeed_config " + kConfigs + "zero0.json --output_dir o ";
  expect_one_line(run(train + "--data_path no.jsonl --model_config " + tiny_model()), 11,
                  "no.jsonl");
  expect_one_line(run(train + "--data_path wikitext --model_config " + tiny_model()), 11,
                  "data_path must name an existing file; check the path (data_path=wikitext)");
  expect_one_line(run(train + "--eval_data_path wiki --data_path " + tiny_corpus() +
                      " --model_config " + tiny_model()),
                  11, "must name an existing file; check the path (data_path=wiki)");
  expect_one_line(run(train + "--init_ckpt no_folder --data_path " + tiny_corpus()), 11,
                  "no_folder");
  expect_one_line(run(kGenerate + " --ckpt no_folder --prompt x"), 11, "no_folder");
}

TEST_F(Programs, ARankThatHasNotMetTheOthersSaysItsOwnError) {
  const comm::HeldPort port;  // at which nobody listens
  const Outcome outcome =
      run("env RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=" +
          std::to_string(port.number()) + " " + kTrain + " --nonsense");
  EXPECT_EQ(outcome.code, 10);
  EXPECT_EQ(outcome.err, "fmengine-train: rank 1: unknown flag --nonsense; see --help\n");
}

TEST_F(Programs, TorchrunsErrorFileHoldsTheMessage) {
  run("env TORCHELASTIC_ERROR_FILE=error.json " + kTrain + " --train_step 5");
  const nlohmann::json json = nlohmann::json::parse(read_all(folder_ / "error.json"));
  EXPECT_EQ(json["message"]["message"], "unknown flag --train_step; did you mean --train_steps?");
  EXPECT_GT(std::stoll(json["message"]["extraInfo"]["timestamp"].get<std::string>()), 1.6e9);
}

TEST_F(Programs, EveryConfigurationIsPlanned) {
  struct Row {
    const char* config;
    const char* more;
  };
  for (const Row& row :
       {Row{"zero0.json", ""}, Row{"zero1.json", ""}, Row{"zero2.json", ""}, Row{"zero3.json", ""},
        Row{"llama.json", ""}, Row{"pipeline.json", " --pipe_parallel_size 2"}}) {
    for (const char* model : {"llama-5m-bytes.json", "llama-1b.json"}) {
      const std::string words = " --plan --plan_ranks 4 --model_config " + kConfigs + "models/" +
                                model + " --deepspeed_config " + kConfigs + row.config + row.more;
      const Outcome text = run(kTrain + words);
      EXPECT_EQ(text.code, 0) << row.config << " " << model << ": " << text.err;
      const Outcome json = run(kTrain + words + " --json");
      ASSERT_EQ(json.code, 0) << row.config << " " << model << ": " << json.err;
      EXPECT_TRUE(nlohmann::json::parse(json.out).is_object());
    }
  }
}

// Ranks that talk by NCCL leave a gigabyte to it: those that were started, or --plan_ranks.
TEST_F(Programs, APlanForGpusCountsNcclsMemoryByTheRanksPlannedFor) {
  const std::string words = kTrain +
                            " --plan --json --device cuda --device_memory 80G --model_config " +
                            tiny_model() + " --deepspeed_config " + kConfigs + "zero1.json";
  const auto left = [&](const std::string& command) {
    const Outcome plan = run(command);
    EXPECT_EQ(plan.code, 0) << command << ": " << plan.err;
    const auto json = nlohmann::json::parse(plan.out);
    return json.at("host_memory").at("available_bytes").get<std::int64_t>();
  };
  const std::int64_t two = left(words + " --plan_ranks 2");
  EXPECT_EQ(left(words + " --plan_ranks 1") - two, std::int64_t{1} << 30);
  EXPECT_EQ(left("WORLD_SIZE=2 RANK=0 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "
                 "MASTER_PORT=1 " +
                 words),
            two);
}

// The command that docs/gpu.md shows, with the shipped files.
TEST_F(Programs, ThePlanOnTheGpuPageWorks) {
  const std::string page = read_all(kConfigs + "../docs/gpu.md");
  const std::size_t begin = page.find("fmengine-train --plan --model_config");
  ASSERT_NE(begin, std::string::npos);
  std::string words = page.substr(begin, page.find("\n```", begin) - begin);
  const auto replace = [&](const std::string& part, const std::string& by) {
    for (std::size_t at = words.find(part); at != std::string::npos;
         at = words.find(part, at + by.size())) {
      words.replace(at, part.size(), by);
    }
  };
  replace("\\\n", " ");
  replace("configs/", kConfigs);
  replace("fmengine-train ", kTrain + " ");
  const Outcome plan = run(words);
  ASSERT_EQ(plan.code, 0) << words << ": " << plan.err;
  EXPECT_NE(plan.out.find("memory fits the GPU: 1 rank needs "), std::string::npos) << plan.out;
  EXPECT_NE(plan.out.find("4 x H100 of "), std::string::npos) << plan.out;
}

// One foreign key, one that is ignored, one that --precision fp32 overrides.
constexpr const char* kNoted = R"({"train_micro_batch_size_per_gpu": 1, "dump_state": true,
  "my_run": 4, "bf16": {"enabled": true}, "gradient_clipping": 0.5,
  "optimizer": {"type": "AdamW", "params": {"lr": 0.25, "betas": [0.5, 0.75], "eps": 0.125}},
  "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 7}}})";
constexpr const char* kNotes[] = {"unknown key \"my_run\" has no effect (noted.json:2)",
                                  "ignored dump_state: the start banner and --plan print it",
                                  "--precision fp32 overrides bf16.enabled = true (line 2)"};
constexpr const char* kOptimizer =
    "AdamW (decoupled decay), lr 0.25, betas 0.5 0.75, eps 0.125, weight decay 0, "
    "WarmupLR (log) 0 -> 0.25 over 7 steps, clipping 0.5\n";

std::string one_line(const std::string& text) {
  std::istringstream in(text);
  std::string line;
  for (std::string word; in >> word;) line += word + " ";
  return line;
}

TEST_F(Programs, PlanAndBannerSayWhatWasNotedAndTheOptimizer) {
  write("noted.json", kNoted);
  const std::string words = kTrain + " --deepspeed_config noted.json --precision fp32" +
                            " --train_steps 1 --max_seq_len 64 --model_config " + tiny_model();
  const Outcome text = run(words + " --plan --plan_ranks 2");
  ASSERT_EQ(text.code, 0) << text.err;
  const Outcome json = run(words + " --plan --plan_ranks 2 --json");
  ASSERT_EQ(json.code, 0) << json.err;
  const auto in_json = nlohmann::json::parse(json.out)["notes"].get<std::vector<std::string>>();
  EXPECT_EQ(in_json.size(), std::size(kNotes));
  const Outcome train = run(words + " --output_dir o --data_path " + tiny_corpus());
  ASSERT_EQ(train.code, 0) << train.err;
  for (const std::string note : kNotes) {
    EXPECT_NE(text.out.find("\nnote: " + note), std::string::npos) << note << "\n" << text.out;
    EXPECT_NE(train.out.find("\n  - " + note), std::string::npos) << train.out;
    EXPECT_EQ(std::count_if(in_json.begin(), in_json.end(),
                            [&](const std::string& each) { return each.starts_with(note); }),
              1)
        << note;
  }
  EXPECT_NE(text.out.find(std::string("\noptimizer ") + kOptimizer), std::string::npos) << text.out;
  EXPECT_NE(one_line(train.out).find(one_line(std::string("optimizer ") + kOptimizer)),
            std::string::npos)
      << train.out;
}

// The README's command prints the README's programs, but for the breaks of lines.
TEST_F(Programs, TheReadmeShowsWhatThePlanPrints) {
  const std::string readme = read_all(std::string(FM_SOURCES) + "/README.md");
  const std::size_t first = readme.find("build/fmengine-train --plan");
  const std::size_t end = readme.find("\n\n", first);
  const std::size_t close = readme.find("```", end);
  ASSERT_NE(close, std::string::npos);
  const std::string command = readme.substr(first, end - first);
  const Outcome plan = run("(cd " + std::string(FM_SOURCES) + " && " + FM_PROGRAMS +
                           command.substr(std::string("build").size()) + ")");
  ASSERT_EQ(plan.code, 0) << plan.err;
  const std::string programs = plan.out.substr(plan.out.find("\n  pipe rank 0: L0"));
  EXPECT_EQ(one_line(readme.substr(end, close - end)), one_line(programs))
      << "paste the last lines of: " << command;
}

TEST_F(Programs, RowsBeyondTheModelsPositionsAreRefused) {
  const std::string words = kTrain + " --plan --plan_ranks 1 --deepspeed_config " + kConfigs +
                            "zero0.json --model_config " + tiny_model();
  EXPECT_EQ(run(words + " --max_seq_len 128").code, 0);
  const std::string chosen =
      "tokens per step; rows of 128 tokens, the model's length: --max_seq_len";
  EXPECT_NE(run(words).out.find(chosen), std::string::npos);
  EXPECT_EQ(run(words + " --max_seq_len 128").out.find("; rows of"), std::string::npos);
  expect_one_line(run(words + " --max_seq_len 129"), 10,
                  "(max_seq_len=129, max_position_embeddings=128)");
}

TEST_F(Programs, TrainThenGenerateTheSameTextTwice) {
  const Outcome train =
      run(kTrain + " --deepspeed_config " + kConfigs + "zero0.json --model_config " + tiny_model() +
          " --data_path " + tiny_corpus() + " --output_dir o --train_steps 3 --max_seq_len 32");
  ASSERT_EQ(train.code, 0) << train.err << train.out;
  const std::string words = kGenerate + " --ckpt o/hf --prompt 'int v' --max_new_tokens 20";
  const Outcome greedy = run(words);
  EXPECT_EQ(greedy.code, 0) << greedy.err;
  EXPECT_TRUE(greedy.out.starts_with("int v")) << greedy.out;
  EXPECT_EQ(run(words).out, greedy.out);
  const std::string sampled = words + " --temperature 1 --seed 4";
  EXPECT_EQ(run(sampled).out, run(sampled).out);
  EXPECT_NE(run(sampled).out, greedy.out);
}

// In the plan, in the banner, and where text is generated.
TEST_F(Programs, WhatTheModelsFolderHidesIsNoted) {
  const std::string model = tiny_model();
  std::string text = read_all(model);
  text.insert(1, R"("embedding_multiplier": 12.0, )");
  write("model.json", text);
  tiny_corpus();
  const std::string flags =
      " --model_config model.json --data_path corpus.jsonl --max_seq_len 16"
      " --train_steps 1 --gradient_accumulation_steps 1";
  const std::string keys = "does not know either: embedding_multiplier (12.0);";
  EXPECT_NE(run(kTrain + " --plan" + flags).out.find(keys), std::string::npos);
  const Outcome trained = run(kTrain + flags + " --output_dir run");
  EXPECT_NE(trained.out.find(keys), std::string::npos) << trained.out << trained.err;

  // A tokenizer of the same size with two bytes changed.
  fs::create_directories(folder_ / "other");
  std::string other = read_all(folder_ / "run/hf/tokenizer.json");
  const std::size_t a = other.find("\"a\": 97");
  const std::size_t b = other.find("\"b\": 98");
  ASSERT_TRUE(a != std::string::npos && b != std::string::npos);
  other[a + 1] = 'b';
  other[b + 1] = 'a';
  write("other/tokenizer.json", other);
  const std::string again =
      " --init_ckpt run/hf --tokenizer other --data_path corpus.jsonl"
      " --max_seq_len 16 --train_steps 1";
  const std::string ids = "2 of 259 ids differ, 97 is \"a\" there and \"b\" here";
  EXPECT_NE(run(kTrain + " --plan" + again).out.find(ids), std::string::npos);
  const Outcome said =
      run(kGenerate + " --ckpt run/hf --tokenizer other --prompt a --max_new_tokens 1");
  EXPECT_NE(said.err.find(ids), std::string::npos) << said.err;
  EXPECT_NE(said.err.find(keys), std::string::npos) << said.err;
}

TEST_F(Programs, GeneratingNeedsAWholeTokenizer) {
  const Outcome train =
      run(kTrain + " --deepspeed_config " + kConfigs + "zero0.json --model_config " + tiny_model() +
          " --data_path " + tiny_corpus() + " --output_dir o --train_steps 1 --max_seq_len 32");
  ASSERT_EQ(train.code, 0) << train.err;
  const std::string words = kGenerate + " --ckpt o/hf --prompt x --max_new_tokens 1";
  EXPECT_EQ(run(words).code, 0);
  write("o/hf/tokenizer.json", "{\"version\": ");
  expect_one_line(run(words), 11, "o/hf/tokenizer.json");
  write("o/hf/tokenizer.json", "{\"model\": {\"type\": \"Unheard\"}}");
  expect_one_line(run(words), 11, "o/hf/tokenizer.json");
  fs::remove(folder_ / "o/hf/tokenizer.json");
  expect_one_line(run(words), 11, "a tokenizer is required: tokenizer.json");
}

// A file of prompts, a conversation and scores; what they say is compared in tests/oracle.
TEST_F(Programs, GenerateWritesJsonLinesAndAnswers) {
  const Outcome train =
      run(kTrain + " --deepspeed_config " + kConfigs + "zero0.json --model_config " + tiny_model() +
          " --data_path " + tiny_corpus() + " --output_dir o --train_steps 1 --max_seq_len 32");
  ASSERT_EQ(train.code, 0) << train.err;
  const std::string words = kGenerate + " --ckpt o/hf --max_new_tokens 3";
  write("prompts.txt", "int\n\nvoid\n");
  EXPECT_EQ(run(words + " --prompt_file prompts.txt --output out.jsonl").code, 0);
  std::ifstream lines(folder_ / "out.jsonl");
  std::string first;
  std::string second;
  std::getline(lines, first);
  std::getline(lines, second);
  EXPECT_EQ(nlohmann::json::parse(first)["prompt"], "int");
  EXPECT_EQ(nlohmann::json::parse(second)["prompt"], "void");
  EXPECT_LE(nlohmann::json::parse(second)["tokens"].size(), 3U);

  const Outcome scores = run(words + " --score prompts.txt");
  EXPECT_EQ(scores.code, 0) << scores.err;
  EXPECT_TRUE(scores.out.starts_with("{\"logprob\": -")) << scores.out;
  EXPECT_NE(scores.out.find("{\"perplexity\": "), std::string::npos) << scores.out;

  expect_one_line(run(words + " --chat --prompt x"), 10, "needs the model's chat template");
  write("o/hf/chat_template.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_EQ(run("printf 'hello\\n/exit\\nmore\\n' | " + words + " --chat").code, 0);
  expect_one_line(run(words + " --prompt_file nothing.txt"), 11, "nothing.txt");
  expect_one_line(run(words + " --prompt " + std::string(128, 'x')), 10,
                  "(128 tokens, max_position_embeddings=128)");
}

// Nothing is lost when one text is too long: neither the answers of before nor a conversation.
TEST_F(Programs, GenerateGoesOnWhereATextIsTooLong) {
  const Outcome train =
      run(kTrain + " --deepspeed_config " + kConfigs + "zero0.json --model_config " + tiny_model() +
          " --data_path " + tiny_corpus() + " --output_dir o --train_steps 1 --max_seq_len 32");
  ASSERT_EQ(train.code, 0) << train.err;
  write("o/hf/chat_template.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
  const std::string words = kGenerate + " --ckpt o/hf --max_new_tokens 3";
  const std::string prompt = "{\"prompt\": \"" + std::string(128, 'x') + "\"}\n";
  write("prompts.jsonl", "{\"prompt\": \"a\"}\n" + prompt);
  write("out.jsonl", "kept\n");
  expect_one_line(run(words + " --prompt_file prompts.jsonl --output out.jsonl"), 11,
                  "prompts.jsonl:2: a prompt must be shorter");
  write("texts.txt", "ab\n\n" + std::string(129, 'x') + "\n");
  expect_one_line(run(words + " --score texts.txt --output out.jsonl"), 11,
                  "texts.txt:3: a text must be no longer");
  write("refused.jsonl", "{\"prompt\": \"a\"}\n{\"messages\": [{\"role\": \"user\"}]}\n");
  expect_one_line(run(words + " --prompt_file refused.jsonl --output out.jsonl"), 11,
                  "refused.jsonl:2: ");
  EXPECT_EQ(read_all(folder_ / "out.jsonl"), "kept\n");

  std::string questions;
  for (const std::size_t size : {60, 50, 500, 10, 40'000, 60}) {
    questions += std::string(size, 'q') + "\n";
  }
  write("questions.txt", questions + "/exit\n");
  const Outcome chat = run(words + " --chat < questions.txt");
  EXPECT_EQ(chat.code, 0) << chat.err;
  EXPECT_NE(chat.err.find("(500 bytes, max_position_embeddings=128)"), std::string::npos);
  EXPECT_NE(chat.err.find("(40000 bytes, max_position_embeddings=128)"), std::string::npos);
  EXPECT_NE(chat.err.find("its 1 oldest questions"), std::string::npos) << chat.err;
}

// As the script of a Slurm job asks.
TEST_F(Programs, ExplainTellsAScriptWhetherToStartAgain) {
  const std::string explain = std::string(FM_PROGRAMS) + "/fmengine explain ";
  const Outcome again = run(explain + "20 | head -n 1");
  EXPECT_EQ(again.code, 0);
  EXPECT_EQ(again.out, "try-again\n");
  EXPECT_EQ(run(explain + "13 | head -n 1").out, "permanent\n");
  expect_one_line(run(explain + "999"), 10, "128 plus a signal's number");
}

TEST_F(Programs, TheInstalledTreeRunsWithoutTheBuildTree) {
  const Outcome install = run(std::string("cmake --install ") + FM_PROGRAMS + " --prefix tree");
  ASSERT_EQ(install.code, 0) << install.err;
  const Outcome libraries = run("ldd tree/bin/fmengine-train tree/lib/libfm_torch_*.so");
  EXPECT_EQ(libraries.out.find("not found"), std::string::npos) << libraries.out;
  EXPECT_NE(libraries.out.find("tree/lib/libtorch_cpu.so"), std::string::npos) << libraries.out;
  std::string others = libraries.out;  // without those of the tree, which may lie in the sources
  const std::string tree = (folder_ / "tree").string();
  for (std::size_t at = 0; (at = others.find(tree)) != std::string::npos;) {
    others.erase(at, tree.size());
  }
  EXPECT_EQ(others.find(FM_SOURCES), std::string::npos) << others;
  const Outcome plan =
      run("tree/bin/fmengine-train --plan --plan_ranks 2 --deepspeed_config "
          "tree/share/fmengine/configs/zero2.json --model_config "
          "tree/share/fmengine/configs/models/llama-5m-bytes.json");
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_EQ(run("tree/bin/fmengine-generate --version").code, 0);
}

}  // namespace
}  // namespace fm::cli
