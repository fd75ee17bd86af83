#include "checkpoint/foreign_folder.h"

#include <gtest/gtest.h>

#include "core/check.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::checkpoint {
namespace {

// The folder of these files, and what is said of it.
std::string said_of(const std::vector<const char*>& files) {
  const testing::ScratchFolder folder;
  for (const char* name : files) folder.write(name, "x");
  return foreign_folder(folder.path());
}

TEST(ForeignFolder, IsRecognisedAndTheCureIsNamed) {
  const auto expect = [](const std::vector<const char*>& files, const std::string& words) {
    const std::string said = said_of(files);
    EXPECT_NE(said.find(words), std::string::npos) << words << " is not in: " << said;
  };
  expect({"mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt"},
         "is a DeepSpeed checkpoint; make weights of it with its own zero_to_fp32.py ");
  expect({"bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"}, "is a DeepSpeed checkpoint");
  expect({"latest", "zero_to_fp32.py"}, "--safe_serialization");
  expect({"layer_00-model_00-model_states.pt", "mp_rank_00_model_states.pt"},
         "a checkpoint of DeepSpeed's pipeline (layer_*.pt), as FMEngine writes it");
  expect({"adapter_config.json", "adapter_model.safetensors"}, "is a PEFT adapter");
  expect({"model.Q4_K_M.gguf"}, "GGUF");
  expect({"MANIFEST.json", "state.json", "weights-0000.safetensors"}, "fmengine-export ");
  expect({"latest", "global_step10"}, "is an output directory of fmengine; give its export, ");
}

TEST(ForeignFolder, PointersOfGitLfsAreNoFiles) {
  const testing::ScratchFolder folder;
  folder.write("config.json", "{}");
  folder.write("model.safetensors", "x");
  EXPECT_EQ(foreign_folder(folder.path()), "");
  for (const char* name : {"tokenizer.json", "model.safetensors"}) {
    folder.write(name, "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n");
    const std::string said = foreign_folder(folder.path());
    EXPECT_NE(said.find(core::concat("pointers of Git LFS instead of files (", name)), said.npos)
        << said;
    folder.write(name, "x");
  }
}

// Mistral's folders hold the same model twice: consolidated.safetensors and tokenizer.model.v3
// are of its own programs.
TEST(ForeignFolder, PointersThatNobodyReadsMayStay) {
  const char* const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n";
  const testing::ScratchFolder folder;
  folder.write("model-00001-of-00001.safetensors", "x");
  for (const char* name : {"consolidated.safetensors", "tokenizer.model.v3", "tokenizer.model"}) {
    folder.write(name, pointer);
  }
  const std::string alone = foreign_folder(folder.path());
  EXPECT_NE(alone.find("(tokenizer.model)"), alone.npos) << alone;
  folder.write("tokenizer.json", "{}");
  EXPECT_EQ(foreign_folder(folder.path()), "");
  folder.write("model-00001-of-00001.safetensors", pointer);
  const std::string part = foreign_folder(folder.path());
  EXPECT_NE(part.find("(model-00001-of-00001.safetensors)"), part.npos) << part;
}

TEST(ForeignFolder, PointersOfOldWeightsCountWhereNoOthersAre) {
  const testing::ScratchFolder folder;
  folder.write("pytorch_model.bin",
               "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n");
  const std::string alone = foreign_folder(folder.path());
  EXPECT_NE(alone.find("(pytorch_model.bin)"), alone.npos) << alone;
  folder.write("model.safetensors", "x");
  EXPECT_EQ(foreign_folder(folder.path()), "");
}

TEST(ForeignFolder, AModelOfTheHubIsFetchedByOneLine) {
  EXPECT_NE(foreign_folder("meta-llama/Llama-3.2-1B")
                .find("hf download meta-llama/Llama-3.2-1B --local-dir Llama-3.2-1B"),
            std::string::npos);
  EXPECT_NE(foreign_folder("gpt2").find("hf download gpt2 --local-dir gpt2"), std::string::npos);
  for (const char* path : {"a/b/c", "./a", "../a", "~/a", "a/", "/a"}) {
    EXPECT_EQ(foreign_folder(path), "") << path;
  }
}

// As huggingface_hub lays its cache out.
TEST(ForeignFolder, OfTheHubsCacheTheSnapshotIsNamed) {
  const testing::ScratchFolder folder;
  const auto said = [&] { return foreign_folder(folder.path()); };
  for (const char* name : {"blobs", "refs", "snapshots", "snapshots/aa", "snapshots/bb"}) {
    std::filesystem::create_directories(folder.path() / name);
  }
  EXPECT_TRUE(said().ends_with("snapshots/bb")) << said();
  folder.write("refs/main", "aa");
  EXPECT_TRUE(said().ends_with("is a folder of the hub's cache; give the snapshot in it: " +
                               (folder.path() / "snapshots/aa").string()))
      << said();
  folder.write("blobs/x", "x");
  for (const char* name : {"config.json", "model.safetensors"}) {
    std::filesystem::create_symlink("../../blobs/x", folder.path() / "snapshots/aa" / name);
  }
  EXPECT_EQ(foreign_folder(folder.path() / "snapshots/aa"), "");
}

TEST(ForeignFolder, OfATrainersFolderTheNewestCheckpointIsNamed) {
  const testing::ScratchFolder folder;
  for (const char* name : {"checkpoint-500", "checkpoint-1000", "checkpoint-x"}) {
    std::filesystem::create_directories(folder.path() / name);
  }
  const std::string said = foreign_folder(folder.path());
  EXPECT_TRUE(said.ends_with((folder.path() / "checkpoint-1000").string())) << said;
  folder.write("model.safetensors", "x");
  EXPECT_EQ(foreign_folder(folder.path()), "");
}

TEST(ForeignFolder, AFileIsNoFolder) {
  const testing::ScratchFolder folder;
  EXPECT_NE(foreign_folder(folder.write("m.gguf", "GGUF")).find("is a GGUF file"),
            std::string::npos);
  const std::string said = foreign_folder(folder.write("model.safetensors", "x"));
  EXPECT_TRUE(said.ends_with("weights: " + folder.path().string())) << said;
}

TEST(ForeignFolder, AWholeModelIsNone) {
  EXPECT_EQ(said_of({"config.json", "model.safetensors"}), "");
  EXPECT_EQ(said_of({"config.json", "model.safetensors", "pytorch_model.bin"}), "");
  EXPECT_EQ(said_of({"config.json", "pytorch_model.bin", "model.gguf"}), "");
  EXPECT_EQ(said_of({"pytorch_model-00001-of-00001.bin", "pytorch_model.bin.index.json"}), "");
  EXPECT_EQ(said_of({"config.json", "model.safetensors.index.json", "adapter_config.json"}), "");
  EXPECT_EQ(said_of({"notes.txt"}), "");
  EXPECT_EQ(foreign_folder("/not/there"), "");
}

}  // namespace
}  // namespace fm::checkpoint
