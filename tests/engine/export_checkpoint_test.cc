// fmengine-export: the folder of a checkpoint is the one that the run exports.
#include "engine/state/export_checkpoint.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/hf_folder.h"
#include "core/element.h"
#include "engine/plan/run_model.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;

class ExportCheckpoint : public TrainerCase {
 protected:
  // Two ranks, ZeRO 2; checkpoints of steps 1 and 2.
  TrainOptions trained() {
    TrainOptions options = this->options("run", 2);
    options.save_steps = 1;
    options.zero_stage = 2;
    EXPECT_EQ(run(options, 2), 0);
    return options;
  }
  std::string out(const std::string& name) const { return (folder() / name).string(); }
};

TEST_F(ExportCheckpoint, InFp32IsWhatTheRunExports) {
  const TrainOptions options = trained();
  const std::string said =
      export_checkpoint({.checkpoint = options.output_dir, .out = out("whole")});
  EXPECT_NE(said.find("exported step 2 of "), std::string::npos) << said;
  EXPECT_NE(said.find(" as fp32: "), std::string::npos) << said;
  const fs::path hf = options.output_dir + "/hf";
  EXPECT_EQ(content(out("whole") + "/model.safetensors"), content(hf / "model.safetensors"));
  EXPECT_EQ(content(out("whole") + "/config.json"), content(hf / "config.json"));
  export_checkpoint({.checkpoint = options.output_dir + "/global_step1", .out = out("first")});
  EXPECT_NE(content(out("first") + "/model.safetensors"), content(hf / "model.safetensors"));
}

// The run could not export over it.
TEST_F(ExportCheckpoint, ARunBesideAForeignFolderIsRefusedBeforeItsFirstStep) {
  TrainOptions options = this->options("run", 1);
  const fs::path hf = fs::path(options.output_dir) / "hf";
  fs::create_directories(hf);
  std::ofstream(hf / "notes.txt") << "of the user";
  const auto refused = [&](const char* why) {
    expect_error(core::ExitCode::kConfigError, why, [&] { run(options, 2); });
    EXPECT_TRUE(metrics(options).empty());
  };
  refused("it holds what no export wrote");
  EXPECT_EQ(content(hf / "notes.txt"), "of the user");
  fs::rename(hf, folder() / "elsewhere");
  fs::create_directory_symlink(folder() / "elsewhere", hf);
  refused("it is a link");
  options.saves = false;  // then nothing is exported
  EXPECT_EQ(run(options, 2), 0);
  EXPECT_TRUE(fs::is_symlink(hf));
}

// Each number is the fp32 one, rounded.
TEST_F(ExportCheckpoint, InNarrowTypesIsRounded) {
  const TrainOptions options = trained();
  const checkpoint::HfFolder wide(options.output_dir + "/hf");
  const auto read = [](const checkpoint::HfFolder& from) {
    std::vector<float> row(96);
    from.read(core::slice_in_memory("model.embed_tokens.weight", {777, 96}, core::Elements(960),
                                    row.data(), core::Elements(96)));
    return row;
  };
  const std::vector<float> expected = read(wide);
  for (const char* dtype : {"bf16", "fp16"}) {
    export_checkpoint({.checkpoint = options.output_dir, .out = out(dtype), .dtype = dtype});
    const bool bf16 = std::string(dtype) == "bf16";
    const auto config = nlohmann::json::parse(content(out(dtype) + "/config.json"));
    EXPECT_EQ(config["dtype"], bf16 ? "bfloat16" : "float16");
    const std::vector<float> got = read(checkpoint::HfFolder(out(dtype)));
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i], bf16 ? core::to_float(core::to_bf16(expected[i]))
                             : core::to_float(core::to_f16(expected[i])));
    }
    EXPECT_LT(
        fs::file_size(out(dtype) + "/model.safetensors"),
        0.6 * static_cast<double>(fs::file_size(options.output_dir + "/hf/model.safetensors")));
  }
}

TEST_F(ExportCheckpoint, AsInitIsWhatTheModelsConfigSaid) {
  TrainOptions options = this->options("run", 1);
  auto config = nlohmann::json::parse(content(options.model_config));
  config["torch_dtype"] = "bfloat16";
  options.model_config = out("bf16.json");
  std::ofstream(options.model_config) << config.dump();
  ASSERT_EQ(run(options), 0);
  const auto said = export_checkpoint(
      {.checkpoint = options.output_dir, .out = out("as_init"), .dtype = "as_init"});
  EXPECT_NE(said.find(" as bf16: "), std::string::npos) << said;
}

// transformers' dtype="auto" takes these spellings; "torch." stands in folders of old versions.
TEST_F(ExportCheckpoint, AsInitReadsEverySpelling) {
  const TrainOptions options = trained();
  const auto as_init = [&](const std::string& keys) {
    auto config = nlohmann::json::parse(content(options.model_config));
    config.erase("torch_dtype");
    config.erase("dtype");
    config.update(nlohmann::json::parse(keys));
    const std::string path = out("as.json");
    std::ofstream(path) << config.dump();
    std::string said = export_checkpoint({.checkpoint = options.output_dir,
                                          .out = out("as"),
                                          .dtype = "as_init",
                                          .model_config = path});
    return said.substr(said.find(" as ") + 4, 4);
  };
  for (const char* keys : {R"({"dtype": "bfloat16"})", R"({"torch_dtype": "torch.bfloat16"})",
                           R"({"dtype": null, "torch_dtype": "bf16"})",
                           R"({"dtype": "bfloat16", "torch_dtype": "half"})"}) {
    EXPECT_EQ(as_init(keys), "bf16") << keys;
  }
  for (const char* keys : {R"({"dtype": "float16"})", R"({"torch_dtype": "torch.half"})"}) {
    EXPECT_EQ(as_init(keys), "fp16") << keys;
  }
  for (const char* keys : {"{}", R"({"torch_dtype": null})", R"({"torch_dtype": "auto"})",
                           R"({"dtype": "torch.float"})", R"({"dtype": "float32"})"}) {
    EXPECT_EQ(as_init(keys), "fp32") << keys;  // random weights
  }
  const std::pair<const char*, const char*> refused[] = {
      {R"({"torch_dtype": "float8_e4m3fn"})", R"("torch_dtype": "float8_e4m3fn")"},
      {R"({"dtype": "float64"})", R"("dtype": "float64")"},
      {R"({"dtype": 16})", R"("dtype": 16)"}};
  for (const auto& [keys, named] : refused) {
    expect_error(core::ExitCode::kConfigError, named, [&] { as_init(keys); });
    expect_error(core::ExitCode::kConfigError, "name a type with --dtype", [&] { as_init(keys); });
  }
}

TEST_F(ExportCheckpoint, AsInitIsTheTypeOfTheFirstWeights) {
  const std::string start = out("start");
  export_checkpoint({.checkpoint = trained().output_dir, .out = start, .dtype = "bf16"});
  auto config = nlohmann::json::parse(content(start + "/config.json"));
  config["dtype"] = "auto";
  std::ofstream(start + "/config.json") << config.dump();
  TrainOptions options = this->options("tuned", 1);
  options.model_config.clear();
  options.init_ckpt = start;
  ASSERT_EQ(run(options), 0);
  const auto as_init = [&] {
    return export_checkpoint(
        {.checkpoint = options.output_dir, .out = out("as_init"), .dtype = "as_init"});
  };
  EXPECT_NE(as_init().find(" as bf16: "), std::string::npos);
  fs::rename(start, out("elsewhere"));
  expect_error(core::ExitCode::kConfigError,
               R"(put them back, or name a type with --dtype ("dtype": "auto"; )", as_init);
}

TEST_F(ExportCheckpoint, WhatIsMissingIsSaid) {
  const TrainOptions options = trained();
  const std::string checkpoint = options.output_dir + "/global_step2";
  expect_error(core::ExitCode::kConfigError, "--dtype must be fp32, bf16, fp16 or as_init", [&] {
    export_checkpoint({.checkpoint = checkpoint, .out = out("x"), .dtype = "int8"});
  });
  expect_error(core::ExitCode::kNoCheckpoint, "",
               [&] { export_checkpoint({.checkpoint = out("nowhere"), .out = out("x")}); });
  TrainOptions wrong = options;
  wrong.model_config.clear();
  wrong.init_ckpt = checkpoint;
  expect_error(core::ExitCode::kDataError, "is a checkpoint of fmengine; go on from it with",
               [&] { open_run_model(wrong); });
}

}  // namespace
}  // namespace fm::engine
