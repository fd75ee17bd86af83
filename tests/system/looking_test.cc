// The programs asked for words instead of training: --plan, --report, --help; and text from what a
// run exported.
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "tests/system/small_job.h"
#include "tests/system/system_case.h"
#include "tests/system/text_files.h"

namespace fm::system {
namespace {

class Looking : public SystemCase {
 protected:
  Ended ask(std::vector<std::string> words) {
    return run_well({.starter = Starter::kAlone, .words = std::move(words), .variables = {}});
  }

  nlohmann::json plan(int zero_stage, int ranks, const std::vector<std::string>& more) {
    return plan(FM_SOURCES "/configs/zero" + std::to_string(zero_stage) + ".json", ranks, more);
  }
  nlohmann::json plan(const std::string& config, int ranks, const std::vector<std::string>& more) {
    std::vector<std::string> words{FM_PROGRAMS "/fmengine-train",
                                   "--plan",
                                   "--json",
                                   "--plan_ranks",
                                   std::to_string(ranks),
                                   "--model_config",
                                   FM_SOURCES "/configs/models/llama-1b.json",
                                   "--max_seq_len",
                                   "1024",
                                   "--deepspeed_config",
                                   config};
    words.insert(words.end(), more.begin(), more.end());
    const Ended ended = ask(words);
    EXPECT_EQ(ended.err, "");
    return nlohmann::json::parse(ended.out);
  }
};

TEST_F(Looking, ThePlanOf64RanksIsOneJsonObjectWithEveryField) {
  const nlohmann::json json = plan(3, 64, {"--pipe_parallel_size", "4"});
  ASSERT_EQ(json.at("ranks").size(), 64U);
  for (const nlohmann::json& rank : json.at("ranks")) {
    for (const char* field : {"params_bytes", "grads_bytes", "optimizer_bytes", "slots_bytes",
                              "scratch_bytes", "activations_bytes", "tables_bytes"}) {
      EXPECT_GT(rank.at(field).get<std::int64_t>(), 0) << field;
    }
  }
  EXPECT_EQ(json.at("programs").size(), 4U);
  for (const auto& program : json.at("programs")) EXPECT_GT(program.get<std::string>().size(), 20U);
  ASSERT_EQ(json.at("wire_bytes").size(), 4U);
  EXPECT_GT(json.at("wire_bytes")[0].at("g").get<std::int64_t>(), 0);
  EXPECT_GT(json.at("bubble").get<double>(), 0.0);
  EXPECT_LT(json.at("bubble").get<double>(), 1.0);
  const nlohmann::json& batch = json.at("batch");
  EXPECT_EQ(batch.at("train_batch_size").get<int>(),
            batch.at("train_micro_batch_size_per_gpu").get<int>() *
                batch.at("gradient_accumulation_steps").get<int>() * 16);
}

// 1F1B of 2 pipe ranks and 4 micro-batches: a fifth of 3 (m + p - 1) is idle.
TEST_F(Looking, AScheduleWithoutAModelIsDrawn) {
  const std::string picture = folder() / "alone.svg";
  const Ended ended = ask({FM_PROGRAMS "/fmengine-train", "--plan", "--plan_times", "1,1,1,0",
                           "--micros", "4", "--pipe_parallel_size", "2", "--svg", picture});
  EXPECT_EQ(ended.err, "");
  const std::string drawn = content_of(picture);
  EXPECT_EQ(occurrences(drawn, "predicted from --plan_times: bubble 20.0 %"), 1) << drawn;
  EXPECT_EQ(occurrences(drawn, ">pipe rank 1<"), 1) << drawn;
}

// A note repeats the key.
TEST_F(Looking, APlanOfAKeyThatIsNoUtf8IsJson) {
  const std::string config =
      write_file(folder() / "odd.json", "{\"train_batch_size\": 64, \"x\xff\": 1}");
  const nlohmann::json json = plan(config, 4, {});
  EXPECT_NE(json.at("notes").dump().find("unknown key"), std::string::npos) << json.at("notes");
}

// 1,235,814,400 parameters (Llama 3.2 1B, tied). Adam's master weights are the fp32 parameters, so
// its state is two numbers of 4 bytes each. Both ends of the tied matrix write one gradient.
TEST_F(Looking, ThePlannedStateFallsWithTheRanksWhereTheZeroStageSaysSo) {
  constexpr double kParameters = 1'235'814'400.0;
  const auto of = [](const nlohmann::json& json, const char* account) {
    return json.at("ranks")[0].at(account).get<double>() / (4.0 * kParameters);
  };
  for (int zero_stage = 0; zero_stage <= 3; ++zero_stage) {
    const nlohmann::json json = plan(zero_stage, 8, {"--shm", "false"});
    EXPECT_NEAR(of(json, "params_bytes"), zero_stage == 3 ? 1.0 / 8 : 1.0, 1e-3) << zero_stage;
    // Ranks of one host have the parameters in common where each has one owner.
    const nlohmann::json shared = plan(zero_stage, 8, {});
    EXPECT_NEAR(of(shared, "params_bytes"), zero_stage >= 1 ? 1.0 / 8 : 1.0, 1e-3) << zero_stage;
    const nlohmann::json hosts = plan(zero_stage, 8, {"--ranks_per_host", "4"});
    EXPECT_EQ(of(hosts, "params_bytes"), of(json, "params_bytes")) << zero_stage;
    EXPECT_NEAR(of(json, "grads_bytes"), zero_stage >= 2 ? 1.0 / 8 : 1.0, 1e-3) << zero_stage;
    EXPECT_NEAR(of(json, "optimizer_bytes"), zero_stage >= 1 ? 2.0 / 8 : 2.0, 1e-3) << zero_stage;
  }
}

TEST_F(Looking, HelpVersionAndReportSucceed) {
  EXPECT_GE(occurrences(ask({FM_PROGRAMS "/fmengine-train", "--help"}).out, "--plan_ranks"), 1);
  EXPECT_GE(occurrences(ask({FM_PROGRAMS "/fmengine-generate", "--help"}).out, "--prompt"), 1);
  const Ended report = ask({FM_PROGRAMS "/fmengine-train", "--report"});
  EXPECT_GE(occurrences(report.out, "oneDNN"), 1) << report.out;
  EXPECT_EQ(report.err, "");
}

// What quickstart.sh trains on, by the report of a machine.
TEST_F(Looking, TheDemoTrainsOnAGpuThatHasWhatItNeeds) {
  const auto device = [&](const std::string& report) {
    const Ended ended =
        ask({"/bin/bash", "-c", "printf '%s\n' \"$0\" | " FM_SOURCES "/scripts/demo_device.sh",
             report});
    return ended.out + ended.err;
  };
  const std::string card = "host   node7\nGPU        cuda:0 NVIDIA H100 80GB HBM3, GPU-6c3e";
  const std::string found = "\n           cuBLASLt 13, for products: /usr/lib/libcublasLt.so.13";
  EXPECT_EQ(device(card + found), "cuda\n");
  EXPECT_EQ(device(card + found + "\n           cuDNN 9, for fast attention: missing; `pip`"),
            "cuda\n");
  EXPECT_EQ(device("GPU        none: no NVIDIA driver is here"), "cpu\n");
  EXPECT_EQ(device("cores      2"), "cpu\n");
  EXPECT_EQ(device(card + "\n           cuBLASLt 13, for products: missing; `pip install x`"),
            "cpu\nthe GPU is left alone: cuBLASLt 13, for products: missing; `pip install x`\n");
  EXPECT_EQ(device(card + ", which this build has no kernels for" + found),
            "cpu\nthe GPU is left alone: GPU        cuda:0 NVIDIA H100 80GB HBM3, GPU-6c3e, which "
            "this build has no kernels for\n");
  // As this machine says it.
  const Ended report = ask({FM_PROGRAMS "/fmengine-train", "--report"});
  const std::string here = device(report.out);
  EXPECT_TRUE(here.starts_with("cpu\n") || here == "cuda\n") << here;
}

// Two letters that follow each other: what greedy text from a trained model must show.
TEST_F(Looking, GreedyTextFromAnExportedFolderRepeatsItselfAndWhatWasLearned) {
  std::string corpus;
  for (int i = 0; i < 64; ++i) corpus += "{\"text\": \"abababababababababababababababababab\"}\n";
  SmallRun run{.config = small_config(folder(), 2),
               .model = small_model(folder()),
               .data = write_file(folder() / "corpus.jsonl", corpus),
               .output = folder() / "output",
               .steps = 60,
               .more = {}};
  run_well({.starter = Starter::kMpirun, .ranks = 2, .words = words_of(run), .variables = {}});
  const std::vector<std::string> words{FM_PROGRAMS "/fmengine-generate",
                                       "--ckpt",
                                       (run.output / "hf").string(),
                                       "--prompt",
                                       "abab",
                                       "--max_new_tokens",
                                       "12"};
  const Ended first = ask(words);
  EXPECT_EQ(first.out, "abababababababab\n") << first.err;
  EXPECT_EQ(ask(words).out, first.out);

  // Another model than the one that was trained would speak, were the head left out.
  nlohmann::json config = nlohmann::json::parse(content_of(run.output / "hf" / "config.json"));
  config["tie_word_embeddings"] = true;
  write_file(run.output / "hf" / "config.json", config.dump());
  const Ended refused = this->run({.starter = Starter::kAlone, .words = words, .variables = {}});
  EXPECT_EQ(refused.codes, std::vector<int>{11}) << refused.out;
  EXPECT_EQ(occurrences(refused.err, "(1 without a place, the first is lm_head.weight)"), 1)
      << refused.err;
}

}  // namespace
}  // namespace fm::system
