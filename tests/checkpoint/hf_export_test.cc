#include "checkpoint/hf_export.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "checkpoint/hf_folder.h"
#include "checkpoint/output_lock.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/safetensors_parse.h"
#include "comm/meet/world.h"
#include "core/fault.h"
#include "core/files/draft_folder.h"
#include "tests/checkpoint/checkpoint_cases.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;

std::vector<TensorSpec> model() {
  return {{"embed", {6, 4}}, {"norm", {4}}, {"head", {6, 4}}, {"tail", {4}}};
}

// Element i of tensor k is 100 k + i. Writes as `ranks` threads.
void export_model(ExportRequest request, int ranks) {
  request.tensors = model();
  comm::run_ranks(ranks, [&](comm::Communicator& world) {
    ExportRequest mine = request;
    std::vector<std::vector<float>> memory;
    for (std::size_t k = 0; k < mine.tensors.size(); ++k) {
      const std::int64_t count = k % 2 == 1 ? 4 : 24;
      const std::int64_t begin = count * world.rank() / ranks;
      const std::int64_t end = count * (world.rank() + 1) / ranks;
      std::vector<float>& floats = memory.emplace_back();
      for (std::int64_t i = begin; i < end; ++i) {
        floats.push_back(static_cast<float>(100 * static_cast<std::int64_t>(k) + i));
      }
      mine.mine.push_back(core::slice_in_memory(mine.tensors[k].name, mine.tensors[k].shape,
                                                core::Elements(begin), floats.data(),
                                                core::Elements(end - begin)));
    }
    export_hf_folder(mine, world);
  });
}

void expect_model(const fs::path& path) {
  const HfFolder folder(path);
  for (std::size_t k = 0; k < 4; ++k) {
    const std::int64_t count = k % 2 == 1 ? 4 : 24;
    std::vector<float> read(static_cast<std::size_t>(count - 1));
    folder.read(core::slice_in_memory(model()[k].name, model()[k].shape, core::Elements(1),
                                      read.data(), core::Elements(count - 1)));
    for (std::size_t i = 0; i < read.size(); ++i) {
      EXPECT_EQ(read[i], static_cast<float>(100 * k + i + 1));
    }
  }
  EXPECT_EQ(folder.names().size(), 4U);
  EXPECT_TRUE(folder.contains("norm"));
  EXPECT_FALSE(folder.contains("lm_head.weight"));
}

constexpr const char* kByteFiles = "config.json fmengine_export.json generation_config.json";

TEST(HfExport, OneFileWhenItFits) {
  const testing::ScratchFolder scratch;
  const fs::path out = scratch.path() / "deep" / "hf";
  const std::string config = "{\"model_type\": \"llama\", \"dtype\": \"float32\"}";
  export_model({.folder = out, .config_json = config}, 3);
  EXPECT_EQ(testing::listing(out),
            std::string(kByteFiles) + " model.safetensors tokenizer.json tokenizer_config.json");
  EXPECT_EQ(testing::listing(scratch.path() / "deep"), "hf");
  EXPECT_EQ(testing::file_content(out / "config.json"), config);
  expect_model(out);
}

nlohmann::json index_of(const fs::path& folder) {
  return nlohmann::json::parse(testing::file_content(folder / "model.safetensors.index.json"));
}

// 24, 4, 24 and 4 floats: 96 + 16 and 96 + 16 bytes; 112 bytes hold two of them.
TEST(HfExport, ShardsAtTheLimitWithAnIndex) {
  const testing::ScratchFolder scratch;
  const fs::path out = scratch.path() / "hf";
  export_model({.folder = out, .config_json = "{}", .shard_limit = core::Bytes(112)}, 2);
  EXPECT_EQ(testing::listing(out),
            std::string(kByteFiles) +
                " model-00001-of-00002.safetensors model-00002-of-00002.safetensors "
                "model.safetensors.index.json tokenizer.json tokenizer_config.json");
  EXPECT_EQ(index_of(out), nlohmann::json::parse(
                               R"({"metadata":{"total_size":224},"weight_map":{
                         "embed":"model-00001-of-00002.safetensors",
                         "norm":"model-00001-of-00002.safetensors",
                         "head":"model-00002-of-00002.safetensors",
                         "tail":"model-00002-of-00002.safetensors"}})"));
  expect_model(out);
  export_model({.folder = out, .config_json = "{}", .shard_limit = core::Bytes(1)}, 1);
  EXPECT_TRUE(fs::exists(out / "model-00004-of-00004.safetensors"));
  expect_model(out);
}

TEST(HfExport, ShardsAsTheFolderOfTheWeights) {
  const testing::ScratchFolder scratch;
  const fs::path source = scratch.path() / "source";
  fs::create_directory(source);
  const auto exported = [&](const std::string& map) {
    std::ofstream(source / "model.safetensors.index.json") << R"({"weight_map": )" << map << "}";
    export_model({.folder = scratch.path() / "hf", .config_json = "{}", .shards_like = source}, 2);
    expect_model(scratch.path() / "hf");
    return testing::listing(scratch.path() / "hf");
  };
  const std::string map = R"({"embed": "b.safetensors", "norm": "c.safetensors",
                              "head": "a.safetensors", "tail": "b.safetensors"})";
  EXPECT_EQ(exported(map), "a.safetensors b.safetensors c.safetensors " + std::string(kByteFiles) +
                               " model.safetensors.index.json tokenizer.json "
                               "tokenizer_config.json");
  EXPECT_EQ(index_of(scratch.path() / "hf").at("weight_map"), nlohmann::json::parse(map));
  // Another model's, no files of this folder, no map at all.
  for (const char* const other :
       {R"({"embed": "b.safetensors"})",
        R"({"embed": "/b.safetensors", "norm": "c.safetensors", "head": "c.safetensors",
            "tail": "c.safetensors"})",
        R"({"embed": 1, "norm": 1, "head": 1, "tail": 1})", "3", ""}) {
    EXPECT_EQ(exported(other),
              std::string(kByteFiles) + " model.safetensors tokenizer.json tokenizer_config.json")
        << other;
  }
}

// A tokenizer of its own folder has no generation_config.json, whose ids end an answer.
TEST(HfExport, TheModelsOwnFilesComeWithItAndNoNamesOfPython) {
  const testing::ScratchFolder scratch;
  const fs::path source = scratch.path() / "source";
  const fs::path tokenizer = scratch.path() / "tokenizer";
  for (const fs::path& folder : {source, tokenizer}) fs::create_directory(folder);
  std::ofstream(source / "generation_config.json") << "{\"eos_token_id\": [2, 7]}";
  std::ofstream(tokenizer / "tokenizer.json") << "{}";
  std::ofstream(tokenizer / "tokenizer_config.json")
      << "{\"auto_map\": {\"AutoTokenizer\": [\"t.T\", null]}, \"eos_token\": \"e\"}";
  std::ofstream(tokenizer / "preprocessor_config.json") << "{\"a\": 1}";
  const fs::path out = scratch.path() / "hf";
  export_model({.folder = out,
                .config_json = "{\"auto_map\": {\"AutoConfig\": \"c.C\"}, \"dtype\": \"float32\"}",
                .tokenizer_from = tokenizer,
                .shards_like = source},
               1);
  EXPECT_EQ(testing::file_content(out / "generation_config.json"), "{\"eos_token_id\": [2, 7]}");
  EXPECT_EQ(testing::file_content(out / "preprocessor_config.json"), "{\"a\": 1}");
  for (const char* const name : {"config.json", "tokenizer_config.json"}) {
    EXPECT_EQ(testing::file_content(out / name).find("auto_map"), std::string::npos) << name;
  }
  EXPECT_NE(testing::file_content(out / "tokenizer_config.json").find("eos_token"),
            std::string::npos);
  // That of an instruct model knows what ends an answer, which its base does not.
  std::ofstream(tokenizer / "generation_config.json") << "{\"eos_token_id\": 9}";
  export_model(
      {.folder = out, .config_json = "{}", .tokenizer_from = tokenizer, .shards_like = source}, 1);
  EXPECT_EQ(testing::file_content(out / "generation_config.json"), "{\"eos_token_id\": 9}");
}

TEST(HfExport, OneFileOfAnySizeWhereTheWeightsCameFromOne) {
  const testing::ScratchFolder scratch;
  std::ofstream(scratch.path() / "model.safetensors") << "looked at by name only";
  export_model({.folder = scratch.path() / "hf",
                .config_json = "{}",
                .shards_like = scratch.path(),
                .shard_limit = core::Bytes(1)},
               2);
  EXPECT_TRUE(fs::exists(scratch.path() / "hf" / "model.safetensors"));
  expect_model(scratch.path() / "hf");
}

TEST(HfExport, NamedChatTemplatesComeAlong) {
  const testing::ScratchFolder scratch;
  const fs::path more = scratch.path() / "source" / "additional_chat_templates";
  fs::create_directories(more);
  std::ofstream(more / "tool_use.jinja") << "with tools";
  std::ofstream(more / "notes.txt") << "no template";
  export_model({.folder = scratch.path() / "hf",
                .config_json = "{}",
                .tokenizer_from = scratch.path() / "source"},
               2);
  const fs::path copied = scratch.path() / "hf" / "additional_chat_templates";
  EXPECT_EQ(testing::listing(copied), "tool_use.jinja");
  EXPECT_EQ(testing::file_content(copied / "tool_use.jinja"), "with tools");
}

TEST(HfExport, AnExistingFolderIsReplacedWhole) {
  const testing::ScratchFolder scratch;
  const fs::path out = scratch.path() / "hf";
  export_model({.folder = out, .config_json = "{}", .shard_limit = core::Bytes(1)}, 2);
  export_model({.folder = out / "", .config_json = "{}"}, 2);
  EXPECT_EQ(testing::listing(out),
            std::string(kByteFiles) + " model.safetensors tokenizer.json tokenizer_config.json");
  EXPECT_EQ(testing::listing(scratch.path()), "hf");
}

// Refused; what is there is as it was, and nothing stands beside it.
void expect_refused(const fs::path& out, const std::string& why) {
  const std::string before = testing::listing(out.parent_path());
  const std::string message = testing::message_of<core::UserError>(
      10, [&] { export_model({.folder = out, .config_json = "{}"}, 2); });
  EXPECT_NE(message.find("(" + out.string() + ": " + why + ")"), std::string::npos) << message;
  EXPECT_EQ(testing::listing(out.parent_path()), before);
}

// The marker names the files of the export: one file more, and the folder is somebody's.
TEST(HfExport, AFolderThatIsNotOursIsRefused) {
  const testing::ScratchFolder scratch;
  const fs::path out = scratch.path() / "hf";
  const char* const foreign = "it holds what no export wrote";
  fs::create_directory(out);
  export_model({.folder = out, .config_json = "{}"}, 2);  // an empty folder is no loss
  const std::string exported = testing::listing(out);
  std::ofstream(out / "README.md") << "added later";
  expect_refused(out, foreign);
  EXPECT_EQ(testing::listing(out), "README.md " + exported);
  fs::remove(out / "README.md");
  fs::remove(out / kExportMarker);
  ASSERT_EQ(mkfifo((out / kExportMarker).c_str(), 0600), 0);  // nobody writes to it
  expect_refused(out, foreign);
}

TEST(HfExport, WhatIsNoFolderIsRefused) {
  const testing::ScratchFolder scratch;
  const auto at = [&](const char* name) { return scratch.path() / name; };
  scratch.write("file", "of the user");
  expect_refused(at("file"), "it is no folder");
  EXPECT_EQ(testing::file_content(at("file")), "of the user");
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  expect_refused(at("pipe"), "it is no folder");
  export_model({.folder = at("real"), .config_json = "{}"}, 2);
  fs::create_directory_symlink(at("real"), at("link"));
  expect_refused(at("link"), "it is a link");
  fs::create_symlink("nowhere", at("dangling"));
  expect_refused(at("dangling"), "it is a link");
  if (::mknod(at("null").c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0) return;  // root alone
  expect_refused(at("null"), "it is no folder");
  EXPECT_TRUE(fs::is_character_file(at("null")));
}

// As fmengine-export does with the adapters of a run.
TEST(HfExport, AnExportInsideOfAnExportIsOursToo) {
  const testing::ScratchFolder scratch;
  const fs::path out = scratch.path() / "hf";
  export_model({.folder = out, .config_json = "{}"}, 1);
  const std::string exported = testing::listing(out);
  export_model({.folder = out / "adapter", .config_json = "{}"}, 1);
  export_model({.folder = out, .config_json = "{}"}, 1);
  EXPECT_EQ(testing::listing(out), exported);
  export_model({.folder = out / "adapter", .config_json = "{}"}, 1);
  std::ofstream(out / "adapter" / "README.md") << "added later";
  expect_refused(out, "it holds what no export wrote");
}

// Whenever it is stopped: before the folder, between any two tensors, before it gets its name.
TEST(HfExport, AStoppedOneLeavesNothing) {
  const testing::ScratchFolder scratch;
  const fs::path out = scratch.path() / "hf";
  int stopped = 0;
  std::string message = "stopped by a signal";
  while (message.find("stopped by a signal") != std::string::npos) {
    EXPECT_EQ(testing::listing(scratch.path()), "") << stopped;
    int asked = 0;
    message = testing::message_of<core::MachineError>(75, [&] {
      const auto stop = [&] { return ++asked > stopped; };
      export_model({.folder = out, .config_json = "{}", .stop = stop}, 1);
    });
    ++stopped;
  }
  EXPECT_EQ(message, "NOTHING THROWN");
  EXPECT_EQ(testing::listing(scratch.path()), "hf");
  EXPECT_EQ(stopped, 8);  // of four tensors, before and behind the folder, at the end; the last not
  expect_model(out);
}

// A child dies in the midst of it, as by kill -9.
TEST(HfExport, WhatAKilledOneLeftGoesWithTheNext) {
  const testing::ScratchFolder scratch;
  const fs::path out = scratch.path() / "hf";
  const core::DraftFolder living(scratch.path(), "hf");  // another export of that name
  const pid_t child = ::fork();
  if (child == 0) {
    core::arm_faults("point=export.tensor,action=kill");
    export_model({.folder = out, .config_json = "{}"}, 1);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path()), {}), 2);
  export_model({.folder = out, .config_json = "{}"}, 1);
  EXPECT_EQ(testing::listing(scratch.path()), living.path().filename().string() + " hf");
}

TEST(HfExport, ForeignTokenizerFilesAreCopiedByteForByte) {
  const testing::ScratchFolder scratch;
  const fs::path source = scratch.path() / "source";
  fs::create_directory(source);
  std::ofstream(source / "tokenizer.json") << "{\"version\": \"1.0\"}  ";
  std::ofstream(source / "special_tokens_map.json") << "{}";
  std::ofstream(source / "config.json") << "not this one";
  const fs::path out = scratch.path() / "hf";
  export_model({.folder = out, .config_json = "{}", .tokenizer_from = source}, 1);
  EXPECT_EQ(
      testing::listing(out),
      "config.json fmengine_export.json model.safetensors special_tokens_map.json tokenizer.json");
  EXPECT_EQ(testing::file_content(out / "tokenizer.json"), "{\"version\": \"1.0\"}  ");
  EXPECT_EQ(testing::file_content(out / "config.json").find("not this one"), std::string::npos);
}

TEST(HfExport, AGivenChatTemplateTakesThePlaceOfTheFolders) {
  const testing::ScratchFolder scratch;
  const fs::path source = scratch.path() / "source";
  fs::create_directory(source);
  scratch.write("source/tokenizer.json", "{}");
  const fs::path given = scratch.write("given.jinja", "given");
  const fs::path out = scratch.path() / "hf";
  for (const char* own : {"", "own"}) {
    if (*own != '\0') scratch.write("source/chat_template.jinja", own);
    export_model(
        {.folder = out, .config_json = "{}", .tokenizer_from = source, .chat_template = given}, 1);
    EXPECT_EQ(testing::file_content(out / "chat_template.jinja"), "given");
  }
  export_model({.folder = out, .config_json = "{}", .tokenizer_from = source}, 1);
  EXPECT_EQ(testing::file_content(out / "chat_template.jinja"), "own");
}

TEST(HfExport, NoTokenizerIsWrittenWhereNoneIsKnown) {
  const testing::ScratchFolder scratch;
  const fs::path out = scratch.path() / "hf";
  export_model({.folder = out, .config_json = "{}", .byte_tokenizer = false}, 1);
  EXPECT_EQ(testing::listing(out), "config.json fmengine_export.json model.safetensors");
  EXPECT_FALSE(has_tokenizer(out));
}

TEST(HfExport, AFailureIsOneErrorOnAllRanksAndLeavesNothing) {
  const testing::ScratchFolder scratch;
  scratch.write("file", "");
  const std::string message = testing::message_of<core::MachineError>(26, [&] {
    export_model({.folder = scratch.path() / "file" / "hf", .config_json = "{}"}, 2);
  });
  EXPECT_NE(message.find("rank 0: "), std::string::npos) << message;
  const std::string copy = testing::message_of<core::MachineError>(26, [&] {
    fs::create_directories(scratch.path() / "source" / "vocab.json");  // a folder: cannot be copied
    export_model({.folder = scratch.path() / "hf",
                  .config_json = "{}",
                  .tokenizer_from = scratch.path() / "source"},
                 2);
  });
  EXPECT_NE(copy.find("vocab.json"), std::string::npos) << copy;
  EXPECT_EQ(testing::listing(scratch.path()), "file source");
}

TEST(HfExport, TheConfigStatesTheTypeThatTheFilesHold) {
  const testing::ScratchFolder scratch;
  const fs::path out = scratch.path() / "hf";
  const auto exported = [&](const char* config) {
    export_model({.folder = out, .config_json = config}, 1);
    return nlohmann::json::parse(testing::file_content(out / "config.json"));
  };
  const auto json = [](const char* text) { return nlohmann::json::parse(text); };
  EXPECT_EQ(exported(R"({"dtype": "float16", "a": 1})"), json(R"({"dtype": "float32", "a": 1})"));
  EXPECT_EQ(exported(R"({"torch_dtype": "bfloat16"})"), json(R"({"torch_dtype": "float32"})"));
  EXPECT_EQ(exported(R"({"dtype": "bfloat16", "torch_dtype": "float16"})"),
            json(R"({"dtype": "float32", "torch_dtype": "float32"})"));
  EXPECT_EQ(exported(R"({"torch_dtype": null})"), json(R"({"torch_dtype": "float32"})"));
  EXPECT_EQ(exported("{}"), json(R"({"dtype": "float32"})"));
  const TensorFile written((out / "model.safetensors").string());
  for (const StoredTensor& tensor : written.header().tensors) EXPECT_EQ(tensor.dtype, "F32");
}

TEST(HfExport, AConfigThatStatesItsTypeStaysAsItIs) {
  const testing::ScratchFolder scratch;
  const fs::path out = scratch.path() / "hf";
  const std::string config = "{\"dtype\":   \"float32\", \"rope_theta\": 1e6}";
  export_model({.folder = out, .config_json = config}, 1);
  EXPECT_EQ(testing::file_content(out / "config.json"), config);
}

TEST(HfTokenizer, ForeignIsWhatDoesNotCarryOurMarker) {
  const testing::ScratchFolder scratch;
  EXPECT_FALSE(has_foreign_tokenizer(scratch.path()));
  export_model({.folder = scratch.path() / "hf", .config_json = "{}"}, 1);
  EXPECT_FALSE(has_foreign_tokenizer(scratch.path() / "hf"));
  for (const char* name : {"tokenizer.json", "tokenizer.model", "vocab.json"}) {
    const std::string file = scratch.write(name, "{}");
    EXPECT_TRUE(has_foreign_tokenizer(scratch.path())) << name;
    fs::remove(file);
  }
  scratch.write("tokenizer_config.json", "{\"tokenizer_class\": \"LlamaTokenizer\"}");
  EXPECT_TRUE(has_foreign_tokenizer(scratch.path()));
}

TEST(HfTokenizer, OursIsWhatSaysSoAndHoldsTheBytes) {
  const testing::ScratchFolder scratch;
  EXPECT_FALSE(has_byte_tokenizer(scratch.path()));
  const fs::path out = scratch.path() / "hf";
  export_model({.folder = out, .config_json = "{}"}, 1);
  EXPECT_TRUE(has_byte_tokenizer(out));
  const fs::path file = out / "tokenizer.json";
  auto tokenizer = nlohmann::json::parse(testing::file_content(file));
  tokenizer["truncation"] = {{"max_length", 512}};  // as transformers may save it again
  std::ofstream(file) << tokenizer;
  EXPECT_TRUE(has_byte_tokenizer(out));
  const auto refused = [&] {
    return testing::message_of<core::UserError>(11, [&] { has_byte_tokenizer(out); });
  };
  tokenizer["model"]["vocab"]["a"] = 98;
  std::ofstream(file) << tokenizer;
  EXPECT_NE(refused().find("tokenizer.json: "), std::string::npos) << refused();
  std::ofstream(file) << "{";
  EXPECT_NE(refused().find("tokenizer.json: "), std::string::npos) << refused();
  fs::remove(file);
  EXPECT_NE(refused().find("tokenizer.json"), std::string::npos) << refused();
  fs::remove(out / "tokenizer_config.json");
  EXPECT_FALSE(has_byte_tokenizer(out));
}

TEST(HfTokenizer, GenerationConfigNamesOurIds) {
  const testing::ScratchFolder scratch;
  export_model({.folder = scratch.path() / "hf", .config_json = "{}"}, 1);
  const auto config = nlohmann::json::parse(
      testing::file_content(scratch.path() / "hf" / "generation_config.json"));
  EXPECT_EQ(config,
            nlohmann::json::parse(R"({"bos_token_id":256,"eos_token_id":257,"pad_token_id":258})"));
}

// A newer run has the output directory: the export that is there stays.
TEST(HfExport, BehindANewerRunNothingIsWritten) {
  const testing::ScratchFolder scratch;
  const auto folder = [&] {
    struct stat at {};
    EXPECT_EQ(::stat((scratch.path() / "hf").c_str(), &at), 0);
    return at.st_ino;
  };
  ExportRequest request{.folder = scratch.path() / "hf", .config_json = "{}"};
  {
    const OutputLock older(scratch.path());
    request.fence.arm(scratch.path(), older.holder());
    export_model(request, 2);
  }
  const ino_t before = folder();
  const OutputLock newer(scratch.path());
  EXPECT_EQ(testing::message_of<core::MachineError>(13, [&] { export_model(request, 2); }),
            request.fence.problem());
  EXPECT_EQ(folder(), before);
  EXPECT_EQ(testing::listing(scratch.path()), "LOCK hf");
}

}  // namespace
}  // namespace fm::checkpoint
