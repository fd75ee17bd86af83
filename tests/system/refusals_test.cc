// Wrong input: one clear line on stderr, the exit code of the contract (docs/exit-codes.md), and
// never a stack trace. Under mpirun the ranks say it once, as soon as they have met.
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "tests/system/small_job.h"
#include "tests/system/system_case.h"
#include "tests/system/text_files.h"

namespace fm::system {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTraces[] = {"terminate called", "what():", "Segmentation", "Aborted",
                                   "backtrace",        "Signal:", "[ 0]",         ".cc:"};

class Refusals : public SystemCase {
 protected:
  SmallRun good_run() const {
    return {.config = small_config(folder(), 1),
            .model = small_model(folder()),
            .data = small_tokens(folder(), 16),
            .output = folder() / "output",
            .steps = 2,
            .more = {}};
  }

  Launch launch(const SmallRun& run, Starter starter = Starter::kAlone, int ranks = 1) const {
    return {.starter = starter, .ranks = ranks, .words = words_of(run), .variables = {}};
  }

  // A run that begins with the weights of a Hugging Face folder.
  Launch launch_from(const fs::path& weights) const {
    SmallRun run = good_run();
    run.more = {"--init_ckpt", weights.string()};
    run.model.clear();
    Launch words = launch(run);
    std::erase(words.words, "--model_config");
    std::erase(words.words, "");
    return words;
  }

  std::string config(const std::string& text) const {
    return write_file(folder() / "wrong.json", text);
  }

  enum class Said : std::uint8_t { kOnce, kByEveryRank };  // after the meeting, before it

  // `part` must be in the only line of ours; under mpirun lines of its own may follow, and it may
  // end a rank before it spoke.
  void expect_refusal(const Launch& launch, int code, const std::string& part,
                      Said said = Said::kOnce) {
    const Ended ended = run(launch);
    for (const int got : ended.codes) EXPECT_EQ(got, code) << ended.out << ended.err;
    const int lines = occurrences(ended.err, "fmengine-train: ") +
                      occurrences(ended.err, "fmengine: rank ");  // told by another one
    EXPECT_GE(lines, 1) << ended.err;
    EXPECT_LE(lines, said == Said::kOnce ? 1 : launch.ranks) << ended.err;
    EXPECT_GE(occurrences(ended.err, part), lines) << ended.err;
    if (launch.starter == Starter::kAlone) {
      EXPECT_EQ(occurrences(ended.err, "\n"), 1) << ended.err;
    }
    for (const char* trace : kTraces) EXPECT_EQ(occurrences(ended.err, trace), 0) << ended.err;
  }

  // The same alone and as two ranks of mpirun.
  void expect_refusals(const SmallRun& run, int code, const std::string& part,
                       Said said = Said::kOnce) {
    expect_refusal(launch(run), code, part);
    expect_refusal(launch(run, Starter::kMpirun, 2), code, part, said);
  }

  // The Hugging Face folder of a short run.
  fs::path trained_folder() {
    SmallRun run = good_run();
    run.output = folder() / "trained";
    run_well(launch(run));
    return run.output / "hf";
  }
};

TEST_F(Refusals, AnUnknownKeyInABlock) {
  SmallRun run = good_run();
  run.config = config(R"({"train_batch_size": 4, "zero_optimization": {"stagee": 1}})");
  expect_refusals(run, 10, "\"stage\"", Said::kByEveryRank);
}

TEST_F(Refusals, ADuplicateKey) {
  SmallRun run = good_run();
  run.config = config("{\"train_batch_size\": 4,\n\"train_batch_size\": 8}");
  expect_refusal(launch(run), 10, "Duplicate keys");
}

TEST_F(Refusals, JsonThatEndsEarly) {
  SmallRun run = good_run();
  run.config = config("{\"train_batch_size\": 4, \"zero_optimization\": {");
  expect_refusal(launch(run), 10, "wrong.json");
}

TEST_F(Refusals, ABatchTripleThatDoesNotMultiply) {
  SmallRun run = good_run();
  run.config = config(R"({"train_batch_size": 12, "train_micro_batch_size_per_gpu": 2,
                          "gradient_accumulation_steps": 5})");
  expect_refusals(run, 10, "12 != 2 * 5 * ");
}

TEST_F(Refusals, MissingFiles) {
  SmallRun run = good_run();
  run.data = (folder() / "nothing.bin").string();
  expect_refusals(run, 11, "nothing.bin");
  run = good_run();
  run.model = (folder() / "nothing.json").string();
  expect_refusal(launch(run), 11, "nothing.json");
  run = good_run();
  run.config = (folder() / "nothing.json").string();
  expect_refusal(launch(run), 10, "nothing.json");
}

TEST_F(Refusals, ATruncatedSafetensors) {
  const fs::path trained = trained_folder();
  const fs::path weights = trained / "model.safetensors";
  fs::resize_file(weights, fs::file_size(weights) - 1000);
  Launch words = launch_from(trained);
  expect_refusal(words, 11, "model.safetensors");
  words.starter = Starter::kMpirun;
  words.ranks = 2;
  expect_refusal(words, 11, "model.safetensors");
}

TEST_F(Refusals, WeightsThatTheConfigHasNoPlaceFor) {
  const fs::path trained = trained_folder();
  const std::string config = content_of(trained / "config.json");
  const auto with = [&](const std::string& key, const std::string& value) {
    nlohmann::json json = nlohmann::json::parse(config);
    json[key] = nlohmann::json::parse(value);
    write_file(trained / "config.json", json.dump());
    return launch_from(trained);
  };
  const int layers = nlohmann::json::parse(config).at("num_hidden_layers");
  expect_refusal(with("num_hidden_layers", std::to_string(layers - 1)), 11,
                 core::concat("(9 without a place, the first is model.layers.", layers - 1, "."));
  expect_refusal(with("tie_word_embeddings", "true"), 11,
                 "(1 without a place, the first is lm_head.weight)");
}

TEST_F(Refusals, WhatATokenFileCannotBe) {
  SmallRun run = good_run();
  run.more = {"--packing", "one_document"};
  expect_refusals(run, 10, "--packing needs documents");
  run = good_run();
  run.data = (folder() / "pipe.bin").string();
  ASSERT_EQ(mkfifo(run.data.c_str(), 0600), 0);
  expect_refusals(run, 11, "a regular file is required");
}

TEST_F(Refusals, TokensOfAnotherType) {
  SmallRun run = good_run();
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2112,), }";
  header.resize(117, ' ');
  write_file(run.data,
             std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n" + content_of(run.data));
  expect_refusals(run, 11,
                  "tokens.bin: a .npy file must hold little-endian whole numbers of 1 to 8");
}

TEST_F(Refusals, FewerSamplesThanAStepTakes) {
  SmallRun run = good_run();
  run.data = small_tokens(folder(), 3);
  expect_refusals(run, 10, "(3 samples, train_batch_size=4)");
  run.more = {"--allow_repeat"};
  run_well(launch(run));
}

// One of the last bytes of the file, which is read by rank 1 alone under ZeRO 3.
TEST_F(Refusals, WeightsThatAreNotFinite) {
  const fs::path trained = trained_folder();
  std::string bytes = content_of(trained / "model.safetensors");
  bytes.replace(bytes.size() - 4, 4, std::string("\x00\x00\x80\x7F", 4));
  write_file(trained / "model.safetensors", bytes);
  Launch words = launch_from(trained);
  expect_refusal(words, 11, " is inf, stored as F32)");
  *std::ranges::find(words.words, small_config(folder(), 1)) = small_config(folder(), 3);
  words.starter = Starter::kMpirun;
  words.ranks = 2;
  expect_refusal(words, 11, " is inf, stored as F32)");
}

TEST_F(Refusals, RanksThatWereStartedWithOtherFlagsOrFiles) {
  SmallRun first = good_run();
  const auto beside = [&](const SmallRun& other) {
    Launch words = launch(first, Starter::kMpirun, 1);
    for (const char* const word : {":", "-np", "1"}) words.words.emplace_back(word);
    for (const std::string& word : words_of(other)) words.words.push_back(word);
    return words;
  };
  SmallRun other = first;
  other.more = {"--seed", "4"};
  expect_refusal(beside(other), 10, "(rank 1 beside rank 0: --seed is 4, not 3407)");
  other.more = {"--shm", "false"};
  expect_refusal(beside(other), 10, "(rank 1 beside rank 0: --shm is false, not true)");
  other.more = {"--schedule", "gpipe"};
  expect_refusal(beside(other), 10, "--schedule is \"gpipe\", not \"1f1b\"");
  other = first;
  other.config = config(R"({"optimizer": {"type": "AdamW", "params": {"lr": 0.125}}})");
  expect_refusal(beside(other), 10, "lr is 0.125, not ");
  other = first;
  other.data = (folder() / "other.bin").string();
  std::string bytes = content_of(first.data);
  bytes[0] = static_cast<char>(bytes[0] ^ 1);
  write_file(other.data, bytes);
  expect_refusal(beside(other), 10, "(rank 1 beside rank 0: data is ");
  first.more = {"--eval_data_path", first.data};
  other.more = {"--eval_data_path", other.data};
  other.data = first.data;
  expect_refusal(beside(other), 10, "(rank 1 beside rank 0: evaluation data is ");
}

TEST_F(Refusals, GradientsIntoAFolderThatIsNotThere) {
  SmallRun run = good_run();
  run.more = {"--dump_gradients", (folder() / "nothing" / "g.safetensors").string()};
  expect_refusals(run, 10, "in a folder that is there");
}

TEST_F(Refusals, ATokenIdBeyondTheVocabulary) {
  SmallRun run = good_run();
  std::string bytes = content_of(run.data);
  const int position = 33 * 3;  // the first id of row 3; byte 1 stands for 256s
  bytes[position * 4 + 1] = 2;
  write_file(run.data, bytes);
  const int id = 2 * 256 + static_cast<unsigned char>(bytes[position * 4]);
  expect_refusals(
      run, 11,
      core::concat("(id ", id, " at position ", position, ", vocab_size=264, read as int32)"));
}

TEST_F(Refusals, AnUnknownFlag) {
  SmallRun run = good_run();
  run.more = {"--train_stepps", "3"};
  expect_refusals(run, 10, "--train_steps", Said::kByEveryRank);
}

TEST_F(Refusals, FewerLayersThanPipeRanks) {
  SmallRun run = good_run();
  run.model = write_file(folder() / "one.json",
                         R"({"model_type": "llama", "vocab_size": 264, "hidden_size": 64,
    "intermediate_size": 176, "num_hidden_layers": 1, "num_attention_heads": 4})");
  run.more = {"--pipe_parallel_size", "3"};
  expect_refusal(launch(run, Starter::kMpirun, 3), 10,
                 "(pipe_parallel_size=3, num_hidden_layers=1, chunks=3)");
}

TEST_F(Refusals, PipeRanksThatDoNotDivideTheRanks) {
  SmallRun run = good_run();
  run.more = {"--pipe_parallel_size", "2"};
  expect_refusal(launch(run), 10, "pipe");
}

TEST_F(Refusals, ABatchThatCannotBeDealtOverThreeDataRanks) {
  SmallRun run = good_run();
  run.config = config(R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 4,
                          "communication_order": "canonical"})");
  expect_refusal(launch(run, Starter::kMpirun, 3), 10,
                 "train_micro_batch_size_per_gpu is one of 1, 2 (");
}

TEST_F(Refusals, ApexAndOffloadToNvmeWithoutAFolder) {
  SmallRun run = good_run();
  run.config = config(R"({"train_batch_size": 4, "amp": {"enabled": true}})");
  expect_refusal(launch(run), 10, "--precision bf16, fp16 or fp32");
  run.config = config(R"({"train_batch_size": 4, "zero_optimization": {"stage": 2,
                          "offload_optimizer": {"device": "nvme"}}})");
  expect_refusal(launch(run), 10, "offload_optimizer.nvme_path is required");
}

TEST_F(Refusals, AnOutputDirectoryThatCannotBeOne) {
  SmallRun run = good_run();
  run.output = write_file(folder() / "afile", "");
  expect_refusals(run, 10, "--output_dir must name a folder, not a file");
  run.output = "";
  expect_refusals(run, 10, "--output_dir must name a folder; give one");
  run.output = folder() / "afile" / "below";
  expect_refusal(launch(run), 26, "choose another");
  run.output = "/proc/output";
  expect_refusal(launch(run), 26, "choose another");
}

TEST_F(Refusals, AnOutputDirectoryOfARunningRun) {
  SmallRun run = good_run();
  run.steps = 100'000;
  const std::unique_ptr<Job> first = start(launch(run));
  wait_for_step(*first, run.output, 1);
  expect_refusal(launch(run), 13, "\"pid\":" + std::to_string(first->started()[0]));
  const Ended ranks = this->run(launch(run, Starter::kMpirun, 2));
  EXPECT_EQ(ranks.codes[0], 13) << ranks.err;
  EXPECT_TRUE(fs::exists(run.output / "LOCK"));
}

TEST_F(Refusals, ARankWhoseOthersDoNotCome) {
  SmallRun run = good_run();
  run.more = {"--timeout_s", "2"};
  Launch first = launch(run);
  const comm::HeldPort port;
  const std::string meets = core::concat("MASTER_PORT=", port.number());
  first.variables = {"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", meets};
  expect_refusal(first, 14, "rank 1");
  Launch second = launch(run);
  second.variables = {"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", meets};
  expect_refusal(second, 14, core::concat("127.0.0.1:", port.number()));
}

TEST_F(Refusals, TooFewOpenFilesForTheConnectionsOfTheRanks) {
  Launch words = launch(good_run(), Starter::kMpirun, 2);
  words.words.insert(words.words.begin(),
                     {"/bin/bash", "-c", "ulimit -n 18 && exec \"$@\"", "bash"});
  expect_refusal(words, 14, " open files; raise `ulimit -n` (18, 2 ranks)", Said::kByEveryRank);
}

TEST_F(Refusals, ResumeMustWithNothingThere) {
  SmallRun run = good_run();
  run.more = {"--resume", "must"};
  expect_refusal(launch(run), 12, "--resume");
  const Ended ranks = this->run(launch(run, Starter::kMpirun, 2));
  EXPECT_EQ(ranks.codes[0], 12) << ranks.err;
}

// One byte of every file of the only checkpoint in turn: never loaded, never a fresh start instead.
TEST_F(Refusals, AFlippedByteInTheOnlyCheckpoint) {
  SmallRun run = good_run();
  run_well(launch(run));
  const fs::path good = run.output;
  run.steps = 3;
  run.output = folder() / "copy";
  int files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(good / "global_step2")) {
    fs::remove_all(run.output);
    fs::copy(good, run.output, fs::copy_options::recursive);
    std::string bytes = content_of(entry.path());
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    write_file(run.output / "global_step2" / entry.path().filename(), bytes);
    for (int round = 0; round < 2; ++round) {
      const Ended ended = this->run(launch(run));
      EXPECT_EQ(ended.codes[0], 12) << entry.path() << "\n" << ended.out << ended.err;
      const std::string named = round == 0 ? entry.path().filename().string() : "global_step";
      EXPECT_GE(occurrences(ended.err, named), 1) << ended.err;
      for (const char* trace : kTraces) EXPECT_EQ(occurrences(ended.err, trace), 0) << ended.err;
    }
    ++files;
  }
  EXPECT_GE(files, 4);
}

TEST_F(Refusals, ADamagedCheckpointGivesWayToTheOneBefore) {
  SmallRun run = good_run();
  run.steps = 4;
  run.save_steps = 2;
  run_well(launch(run));
  const StepTexts before = steps_in(run.output);
  for (const fs::directory_entry& entry : fs::directory_iterator(run.output / "global_step4")) {
    if (entry.path().extension() != ".safetensors") continue;
    std::string bytes = content_of(entry.path());
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_file(entry.path(), bytes);
  }
  const Ended ended = run_well(launch(run, Starter::kByHand, 2));
  EXPECT_EQ(occurrences(ended.out, "resuming at step 2,"), 1) << ended.out << ended.err;
  EXPECT_GE(occurrences(ended.err, "global_step4"), 1) << ended.err;
  EXPECT_GE(occurrences(ended.err, "2 steps are lost"), 1) << ended.err;
  EXPECT_EQ(steps_in(run.output).size(), before.size());
}

TEST_F(Refusals, AFaultThatCannotBeUnderstood) {
  Launch wrong = launch(good_run());
  wrong.variables = {"FME_FAULT=point=step.pre,action=sing"};
  expect_refusal(wrong, 10, "FME_FAULT");
}

}  // namespace
}  // namespace fm::system
