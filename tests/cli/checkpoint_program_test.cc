// fmengine checkpoint as a user meets it, over the folder of a run.
#include <nlohmann/json.hpp>

#include "tests/cli/program_case.h"

namespace fm::cli {
namespace {

class CheckpointProgram : public Programs {
 protected:
  void train(const std::string& steps = "3") {
    const Outcome run = this->run(kTrain + " --deepspeed_config " + kConfigs +
                                  "zero0.json --model_config " + tiny_model() + " --data_path " +
                                  tiny_corpus() + " --output_dir o --max_seq_len 32 " +
                                  "--save_steps 1 --keep_last 0 --train_steps " + steps);
    ASSERT_EQ(run.code, 0) << run.err << run.out;
  }
  Outcome checkpoint(const std::string& words) const { return run(kAny + " checkpoint " + words); }
  // What a program that ended well or with `code` printed.
  std::string said(const std::string& words, int code = 0) const {
    const Outcome outcome = checkpoint(words);
    EXPECT_EQ(outcome.code, code) << words << "\n" << outcome.out << outcome.err;
    return outcome.out;
  }
  void flip(const std::string& name, std::streamoff back) const {
    std::fstream file(folder_ / name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-back, std::ios::end);
    const auto at = file.tellg();
    const auto old = static_cast<char>(file.get());
    file.seekp(at);
    file.put(static_cast<char>(old ^ 1));
  }
};

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << " is not in:\n" << text;
}

TEST_F(CheckpointProgram, ListsWhatARunHasSaved) {
  train();
  const std::string text = said("ls o");
  expect_in(text, "global_step3");
  expect_in(text, "newest, latest");
  expect_in(text, "proven");
  const auto json = nlohmann::json::parse(said("ls o --json"));
  ASSERT_EQ(json["folders"].size(), 3U);
  EXPECT_EQ(json["folders"][0]["name"], "global_step3");
  EXPECT_EQ(json["folders"][0]["complete"], true);
  EXPECT_EQ(json["folders"][1]["proven"], true) << "step 3 was finite";
  EXPECT_EQ(json["folders"][0]["run"], json["folders"][2]["run"]);
  EXPECT_EQ(said("ls o/hf"), "no checkpoints in o/hf\n");
  expect_one_line(checkpoint("ls nothing"), 11, "an output directory is required");
}

TEST_F(CheckpointProgram, VerifyNamesWhatIsDamaged) {
  train();
  expect_in(said("verify o/global_step1"), "o/global_step1: whole, ");
  EXPECT_EQ(said("verify o --all").find("DAMAGED"), std::string::npos);
  std::string victim;
  for (const auto& entry : fs::directory_iterator(folder_ / "o/global_step2")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("weights-")) victim = std::max(victim, name);
  }
  flip("o/global_step2/" + victim, 5);
  expect_in(said("verify o/global_step2", 12), victim + ": tensor ");
  expect_in(said("verify o"), "o/global_step3: whole");
  const auto json = nlohmann::json::parse(said("verify o --all --json", 12));
  EXPECT_EQ(json["checkpoints"][1]["whole"], false);
  EXPECT_EQ(json["checkpoints"][2]["whole"], true);
  expect_one_line(checkpoint("verify o/hf"), 12, "a checkpoint is required");
  const fs::path manifest = folder_ / "o/global_step1/MANIFEST.json";
  fs::remove(manifest);
  fs::create_symlink("MANIFEST.json", manifest);  // a loop
  expect_in(said("verify o/global_step1", 12), "MANIFEST.json");
  expect_one_line(checkpoint("diff o/global_step1 o/global_step3"), 12, "MANIFEST.json");
}

// Not the higher step of a run that was given up.
TEST_F(CheckpointProgram, VerifyAndDiffTakeTheRunThatCounts) {
  train();
  const Outcome back =
      run(kTrain + " --deepspeed_config " + kConfigs + "zero0.json --model_config " + tiny_model() +
          " --data_path " + tiny_corpus() + " --output_dir o --max_seq_len 32 --save_steps 0 " +
          "--resume o/global_step1 --train_steps 2");
  ASSERT_EQ(back.code, 0) << back.err << back.out;
  expect_in(said("verify o"), "o/global_step2: whole");
  expect_in(said("diff o/global_step2 o"), "no difference: ");
}

TEST_F(CheckpointProgram, PruneAsksFirstAndLeavesARunsFolderAlone) {
  train();
  expect_in(said("prune o --keep_last 1"), "1 folder would go, ");
  EXPECT_TRUE(fs::exists(folder_ / "o/global_step1"));
  expect_one_line(run("flock o/LOCK " + kAny + " checkpoint prune o --keep_last 1 --yes"), 13,
                  "must belong to one run at a time");
  fs::create_directory_symlink("global_step3", folder_ / "o/global_step0");
  expect_in(said("prune o --keep_last 1 --yes"), "1 folder deleted, ");
  EXPECT_FALSE(fs::exists(folder_ / "o/global_step1"));
  EXPECT_TRUE(fs::exists(folder_ / "o/global_step2")) << "proven";
  EXPECT_TRUE(fs::exists(folder_ / "o/global_step3/MANIFEST.json"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "o/global_step0"));
  train("4");  // goes on from step 3
  EXPECT_TRUE(fs::exists(folder_ / "o/global_step4"));
}

TEST_F(CheckpointProgram, DiffComparesCheckpointsAndExports) {
  train();
  expect_in(said("diff o/global_step3 o"), "no difference: ");
  const std::string steps = said("diff o/global_step2 o/global_step3", 1);
  expect_in(steps, "they differ: ");
  expect_in(steps, "state step: 2 | 3\n");
  expect_in(said("diff o/global_step3 o/hf"), "no difference: ");
  EXPECT_EQ(run(kExport + " o/global_step3 bf16 --dtype bf16").code, 0);
  const auto json = nlohmann::json::parse(said("diff bf16 o --json", 1));
  ASSERT_FALSE(json["differing"].empty());
  for (const auto& tensor : json["differing"]) {
    EXPECT_LE(tensor["max_ulp"].get<double>(), 0.5) << tensor["name"] << ": rounded once";
  }
  expect_in(said("diff o/hf bf16 --atol 1"), "no difference: ");
  expect_one_line(checkpoint("diff o nothing"), 11, "nothing");
}

}  // namespace
}  // namespace fm::cli
