#include "checkpoint/hf_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "checkpoint/safetensors_plan.h"
#include "tests/checkpoint/safetensors_bytes.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string refusal(const fs::path& path) {
  return testing::message_of<core::UserError>(11, [&] { HfFolder folder(path); });
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
    folder.read(core::slice_in_memory(name, {size}, core::Elements(0), floats.data(),
                                      core::Elements(size)));
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

// 3 x 5 zeros under the name "w", element `bad` of them is `value`.
void write_with(const testing::ScratchFolder& scratch, std::size_t bad, float value) {
  std::vector<float> floats(15);
  floats[bad] = value;
  const core::TensorSlice whole =
      core::slice_in_memory("w", {3, 5}, core::Elements(0), floats.data(), core::Elements(15));
  write_safetensors((scratch.path() / "model.safetensors").string(), {&whole, 1});
}

// Who reads elements 4 to 12 does not see the others.
TEST(HfFolder, ValuesThatAreNotFiniteAreRefusedByWhoReadsThem) {
  const testing::ScratchFolder scratch;
  const auto read = [&](std::size_t bad, float value) {
    write_with(scratch, bad, value);
    const HfFolder folder(scratch.path());
    return testing::message_of<core::UserError>(11, [&] {
      std::vector<float> part(9);
      folder.read(
          core::slice_in_memory("w", {3, 5}, core::Elements(4), part.data(), core::Elements(9)));
    });
  };
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
    const std::string message = read(11, bad);
    EXPECT_NE(message.find("model.safetensors: tensor w "), std::string::npos) << message;
    EXPECT_NE(message.find("element [2, 1] is " + core::concat(bad)), std::string::npos) << message;
    EXPECT_NE(read(4, bad).find("element [0, 4] is "), std::string::npos);
    EXPECT_NE(read(12, bad).find("element [2, 2] is "), std::string::npos);
    EXPECT_EQ(read(3, bad), "NOTHING THROWN");
    EXPECT_EQ(read(13, bad), "NOTHING THROWN");
  }
  EXPECT_EQ(read(11, std::numeric_limits<float>::max()), "NOTHING THROWN");
}

// Long ones are looked through in parts.
TEST(HfFolder, ALongTensorIsReadAndLookedThroughToItsEnd) {
  const testing::ScratchFolder scratch;
  std::vector<float> floats(200'001);
  for (std::size_t at = 0; at < floats.size(); ++at) floats[at] = static_cast<float>(at);
  const auto read = [&] {
    const core::TensorSlice whole = core::slice_in_memory("w", {200'001}, core::Elements(0),
                                                          floats.data(), core::Elements(200'001));
    write_safetensors((scratch.path() / "model.safetensors").string(), {&whole, 1});
    std::vector<float> part(199'990);
    HfFolder(scratch.path())
        .read(core::slice_in_memory("w", {200'001}, core::Elements(11), part.data(),
                                    core::Elements(199'990)));
    return part;
  };
  EXPECT_TRUE(std::ranges::equal(read(), std::span(floats).subspan(11)));
  floats.back() = std::numeric_limits<float>::infinity();
  const std::string message = testing::message_of<core::UserError>(11, read);
  EXPECT_NE(message.find("element [200000] is inf"), std::string::npos) << message;
}

// Floats 1, 2, ... under these names.
void write_scalars(const testing::ScratchFolder& scratch, const std::vector<std::string>& names) {
  std::vector<float> values(names.size());
  std::vector<core::TensorSlice> tensors;
  for (std::size_t i = 0; i < names.size(); ++i) {
    values[i] = static_cast<float>(i + 1);
    tensors.push_back(
        core::slice_in_memory(names[i], {1}, core::Elements(0), &values[i], core::Elements(1)));
  }
  write_safetensors((scratch.path() / "model.safetensors").string(), tensors);
}

float scalar(const HfFolder& folder, const std::string& name) {
  float value = 0.0F;
  folder.read(core::slice_in_memory(name, {1}, core::Elements(0), &value, core::Elements(1)));
  return value;
}

TEST(HfFolder, ARenamedTensorHasTheNewNameOnly) {
  const testing::ScratchFolder scratch;
  write_scalars(scratch, {"norm.weight", "lm_head.weight"});
  HfFolder folder(scratch.path());
  folder.rename("norm.weight", "model.norm.weight");
  EXPECT_EQ(scalar(folder, "model.norm.weight"), 1.0F);
  EXPECT_EQ(scalar(folder, "lm_head.weight"), 2.0F);
  EXPECT_FALSE(folder.contains("norm.weight"));
  std::vector<std::string> names = folder.names();
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"lm_head.weight", "model.norm.weight"}));
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
  const std::string deep = R"({"weight_map":)" + std::string(100'000, '[');
  EXPECT_NE(with_index(deep.c_str()).find("levels of brackets"), std::string::npos);
  EXPECT_NE(with_index("{}").find("weight_map"), std::string::npos);
  EXPECT_NE(with_index(R"({"weight_map":{}})").find("at least one tensor"), std::string::npos);
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
