#include "checkpoint/hf_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.h"
#include "comm/thread_world.h"
#include "core/byte_ids.h"
#include "tests/checkpoint/checkpoint_cases.h"
#include "tests/checkpoint/safetensors_bytes.h"
#include "tests/data/scratch_folder.h"

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
      mine.mine.push_back({.name = mine.tensors[k].name,
                           .shape = mine.tensors[k].shape,
                           .first = core::Elements(begin),
                           .data = floats.data(),
                           .count = core::Elements(end - begin)});
    }
    export_hf_folder(mine, world);
  });
}

void expect_model(const fs::path& path) {
  const HfFolder folder(path);
  for (std::size_t k = 0; k < 4; ++k) {
    const std::int64_t count = k % 2 == 1 ? 4 : 24;
    std::vector<float> read(static_cast<std::size_t>(count - 1));
    folder.read({.name = model()[k].name,
                 .shape = model()[k].shape,
                 .first = core::Elements(1),
                 .data = read.data(),
                 .count = core::Elements(count - 1)});
    for (std::size_t i = 0; i < read.size(); ++i) {
      EXPECT_EQ(read[i], static_cast<float>(100 * k + i + 1));
    }
  }
  EXPECT_EQ(folder.names().size(), 4U);
  EXPECT_TRUE(folder.contains("norm"));
  EXPECT_FALSE(folder.contains("lm_head.weight"));
}

std::string refusal(const fs::path& path) {
  return testing::message_of<core::UserError>(11, [&] { HfFolder folder(path); });
}

// Deletes it afterwards.
std::string listing_of_the_one_put_aside(const fs::path& folder) {
  fs::path aside;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(".bad-hf-")) aside = entry.path();
  }
  if (aside.empty()) return "NOTHING PUT ASIDE";
  std::string names = testing::listing(aside);
  fs::remove_all(aside);
  return names;
}

constexpr const char* kByteFiles = "config.json fmengine_export.json generation_config.json";

TEST(HfExport, OneFileWhenItFits) {
  const testing::ScratchFolder scratch;
  const fs::path out = scratch.path() / "deep" / "hf";
  export_model({.folder = out, .config_json = "{\"model_type\": \"llama\"}"}, 3);
  EXPECT_EQ(testing::listing(out),
            std::string(kByteFiles) + " model.safetensors tokenizer.json tokenizer_config.json");
  EXPECT_EQ(testing::listing(scratch.path() / "deep"), "hf");
  EXPECT_EQ(testing::file_content(out / "config.json"), "{\"model_type\": \"llama\"}");
  expect_model(out);
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
  const auto index =
      nlohmann::json::parse(testing::file_content(out / "model.safetensors.index.json"));
  EXPECT_EQ(index, nlohmann::json::parse(
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

TEST(HfExport, AnExistingFolderIsReplacedWhole) {
  const testing::ScratchFolder scratch;
  const fs::path out = scratch.path() / "hf";
  export_model({.folder = out, .config_json = "{}", .shard_limit = core::Bytes(1)}, 2);
  export_model({.folder = out / "", .config_json = "{}"}, 2);
  EXPECT_EQ(testing::listing(out),
            std::string(kByteFiles) + " model.safetensors tokenizer.json tokenizer_config.json");
  EXPECT_EQ(testing::listing(scratch.path()), "hf");
}

// The marker names the files of the export: one file more, and the folder is somebody's.
TEST(HfExport, AFolderThatIsNotOursIsPutAsideWhole) {
  const testing::ScratchFolder scratch;
  const fs::path out = scratch.path() / "hf";
  const auto aside = [&] { return listing_of_the_one_put_aside(scratch.path()); };
  fs::create_directory(out);
  std::ofstream(out / "notes.txt") << "of the user";
  export_model({.folder = out, .config_json = "{}"}, 2);
  EXPECT_EQ(aside(), "notes.txt");
  expect_model(out);
  const std::string exported = testing::listing(out);
  std::ofstream(out / "README.md") << "added later";
  export_model({.folder = out, .config_json = "{}"}, 2);
  EXPECT_EQ(aside(), "README.md " + exported);
  fs::remove(out / kExportMarker);
  ASSERT_EQ(mkfifo((out / kExportMarker).c_str(), 0600), 0);  // nobody writes to it
  export_model({.folder = out, .config_json = "{}"}, 2);
  EXPECT_EQ(aside(), exported);
  fs::rename(out, scratch.path() / "real");
  fs::create_directory_symlink(scratch.path() / "real", out);
  export_model({.folder = out, .config_json = "{}"}, 2);
  EXPECT_EQ(aside(), exported);
  EXPECT_FALSE(fs::is_symlink(out));
  expect_model(scratch.path() / "real");
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
  EXPECT_EQ(testing::file_content(out / "config.json"), "{}");
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

TEST(HfTokenizer, GenerationConfigNamesOurIds) {
  const testing::ScratchFolder scratch;
  export_model({.folder = scratch.path() / "hf", .config_json = "{}"}, 1);
  const auto config = nlohmann::json::parse(
      testing::file_content(scratch.path() / "hf" / "generation_config.json"));
  EXPECT_EQ(config,
            nlohmann::json::parse(R"({"bos_token_id":256,"eos_token_id":257,"pad_token_id":258})"));
}

TEST(HfFolder, StoredTypesBecomeFloats) {
  const testing::ScratchFolder scratch;
  const std::string header =
      "{\"d\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
      "\"h\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[8,12]},"
      "\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[12,16]},"
      "\"i\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[16,20]}}";
  using std::string_literals::operator""s;
  const std::string data = "\0\0\0\0\0\0\xF8\x3F"s +  // 1.5
                           "\x00\x3C\x00\xC0"s +      // 1, -2
                           "\x80\x3F\x49\xC0"s +      // 1, -3.140625
                           "\1\0\0\0"s;
  scratch.write("model.safetensors", testing::length_bytes(header.size()) + header + data);
  const HfFolder folder(scratch.path());
  const auto read = [&](const char* name, std::int64_t size) {
    std::vector<float> floats(static_cast<std::size_t>(size));
    folder.read({name, {size}, core::Elements(0), floats.data(), core::Elements(size)});
    return floats;
  };
  EXPECT_EQ(read("d", 1), (std::vector<float>{1.5F}));
  EXPECT_EQ(read("h", 2), (std::vector<float>{1.0F, -2.0F}));
  EXPECT_EQ(read("b", 2), (std::vector<float>{1.0F, -3.140625F}));
  const std::string integer = testing::message_of<core::UserError>(11, [&] { read("i", 1); });
  EXPECT_NE(integer.find("tensor i is I32"), std::string::npos) << integer;
  const std::string absent = testing::message_of<core::UserError>(11, [&] { read("x", 1); });
  EXPECT_NE(absent.find("tensor x is required"), std::string::npos) << absent;
}

// Floats 1, 2, ... under these names.
void write_scalars(const testing::ScratchFolder& scratch, const std::vector<std::string>& names) {
  std::vector<float> values(names.size());
  std::vector<core::TensorSlice> tensors;
  for (std::size_t i = 0; i < names.size(); ++i) {
    values[i] = static_cast<float>(i + 1);
    tensors.push_back({names[i], {1}, core::Elements(0), &values[i], core::Elements(1)});
  }
  write_safetensors((scratch.path() / "model.safetensors").string(), tensors);
}

float scalar(const HfFolder& folder, const std::string& name) {
  float value = 0.0F;
  folder.read({name, {1}, core::Elements(0), &value, core::Elements(1)});
  return value;
}

TEST(HfFolder, NamesWithoutTheirPartAreThoseOfTheWholeModel) {
  const testing::ScratchFolder scratch;
  write_scalars(scratch, {"embed_tokens.weight", "layers.0.x", "norm.weight", "lm_head.weight"});
  const HfFolder folder(scratch.path());
  EXPECT_EQ(scalar(folder, "model.embed_tokens.weight"), 1.0F);
  EXPECT_EQ(scalar(folder, "model.layers.0.x"), 2.0F);
  EXPECT_EQ(scalar(folder, "model.norm.weight"), 3.0F);
  EXPECT_EQ(scalar(folder, "lm_head.weight"), 4.0F);
  EXPECT_FALSE(folder.contains("norm.weight"));
  std::vector<std::string> names = folder.names();
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"lm_head.weight", "model.embed_tokens.weight",
                                             "model.layers.0.x", "model.norm.weight"}));
}

TEST(HfFolder, NamesOfAWholeModelStay) {
  const testing::ScratchFolder scratch;
  write_scalars(scratch, {"embed_tokens.weight", "model.norm.weight"});
  EXPECT_EQ(scalar(HfFolder(scratch.path()), "embed_tokens.weight"), 1.0F);
}

TEST(HfFolder, ATensorStandsInForAnAbsentOneOnly) {
  const testing::ScratchFolder scratch;
  write_scalars(scratch, {"stored", "other"});
  HfFolder folder(scratch.path());
  folder.stand_in("stored", "absent");
  folder.stand_in("stored", "other");
  folder.stand_in("gone", "missing");
  EXPECT_EQ(scalar(folder, "absent"), 1.0F);
  EXPECT_EQ(scalar(folder, "other"), 2.0F);
  EXPECT_TRUE(folder.same("stored", "absent"));
  EXPECT_FALSE(folder.contains("missing"));
  EXPECT_EQ(folder.names().size(), 2U);
}

TEST(HfFolder, IncompleteFoldersAreRefusedWithTheFile) {
  const testing::ScratchFolder scratch;
  EXPECT_NE(refusal(scratch.path() / "absent").find("absent"), std::string::npos);
  EXPECT_NE(refusal(scratch.path()).find("model.safetensors.index.json"), std::string::npos);
  const char* one = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
  scratch.write("part.safetensors", testing::file_of(one, 1));
  const auto with_index = [&](const char* index) {
    scratch.write("model.safetensors.index.json", index);
    return refusal(scratch.path());
  };
  EXPECT_EQ(with_index(R"({"weight_map":{"a":"part.safetensors"}})"), "NOTHING THROWN");
  EXPECT_NE(with_index("{").find("JSON object is required"), std::string::npos);
  EXPECT_NE(with_index("{}").find("weight_map"), std::string::npos);
  EXPECT_NE(with_index(R"({"weight_map":{"a":1}})").find("names to files"), std::string::npos);
  EXPECT_NE(with_index(R"({"weight_map":{"a":"../x.safetensors"}})").find("of the folder"),
            std::string::npos);
  EXPECT_NE(with_index(R"({"weight_map":{"a":"gone.safetensors"}})").find("gone.safetensors"),
            std::string::npos);
  EXPECT_NE(with_index(R"({"weight_map":{"b":"part.safetensors"}})").find("tensor b must be in"),
            std::string::npos);
  scratch.write("part.safetensors", testing::file_of(one, 0));
  EXPECT_NE(with_index(R"({"weight_map":{"a":"part.safetensors"}})").find("part.safetensors: "),
            std::string::npos);
}

}  // namespace
}  // namespace fm::checkpoint
