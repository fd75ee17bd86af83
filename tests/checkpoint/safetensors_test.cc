#include <gtest/gtest.h>

#include <cstring>
#include <span>

#include "checkpoint/safetensors_file.h"
#include "checkpoint/safetensors_parse.h"
#include "checkpoint/safetensors_plan.h"
#include "core/check.h"
#include "tests/checkpoint/safetensors_bytes.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::checkpoint {
namespace {

using testing::file_of;

std::string refusal(const std::string& file) {
  return testing::message_of<core::UserError>(
      11, [&] { parse_safetensors(std::as_bytes(std::span(file)), "f.safetensors"); });
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

TEST(Safetensors, HoldsWhatTheHeaderSays) {
  const std::string header = "{\"__metadata__\":{\"format\":\"pt\"}," +
                             entry("b", "F32", "[2,1]", "[6,14]") + "," +
                             entry("a", "U8", "[6]", "[0,6]") + "}  ";
  const std::string file = file_of(header, 14);
  const SafetensorsHeader parsed = parse_safetensors(std::as_bytes(std::span(file)), "f");
  ASSERT_EQ(parsed.tensors.size(), 2U);
  EXPECT_EQ(parsed.metadata.at("format"), "pt");
  EXPECT_EQ(parsed.tensors[0].name, "a");
  EXPECT_EQ(parsed.tensors[1].name, "b");
  EXPECT_EQ(parsed.tensors[1].dtype, "F32");
  EXPECT_EQ(parsed.tensors[1].shape, (std::vector<std::int64_t>{2, 1}));
  const auto data = static_cast<std::int64_t>(8 + header.size());
  EXPECT_EQ(parsed.tensors[1].begin, core::Bytes(data + 6));
  EXPECT_EQ(parsed.tensors[1].end, core::Bytes(data + 14));
}

TEST(Safetensors, EmptyScalarAndSubByteTensorsAreFine) {
  const std::string none = file_of("{}", 0);
  EXPECT_TRUE(parse_safetensors(std::as_bytes(std::span(none)), "f").tensors.empty());
  const std::string file = file_of("{" + entry("scalar", "F64", "[]", "[0,8]") + "," +
                                       entry("empty", "F32", "[0,3]", "[8,8]") + "," +
                                       entry("four", "F4", "[2,3]", "[8,11]") + "," +
                                       entry("six", "F6_E2M3", "[4]", "[11,14]") + "}",
                                   14);
  EXPECT_EQ(parse_safetensors(std::as_bytes(std::span(file)), "f").tensors.size(), 4U);
}

TEST(Safetensors, UnknownKeysOfATensorArePassedOver) {
  const std::string file = file_of(
      "{\"a\":{\"dtype\":\"U8\",\"x\":{\"dtype\":[1,{}]},\"shape\":[1],\"y\":[[0]],\"data_"
      "offsets\":[0,1]}}",
      1);
  EXPECT_EQ(parse_safetensors(std::as_bytes(std::span(file)), "f").tensors.size(), 1U);
}

struct RefusalCase {
  std::string file;
  const char* why;
};

void expect_refusals(std::span<const RefusalCase> cases) {
  for (const RefusalCase& one : cases) {
    const std::string message = refusal(one.file);
    EXPECT_EQ(message.rfind("f.safetensors: ", 0), 0U) << message;
    EXPECT_NE(message.find(one.why), std::string::npos) << one.why << " / " << message;
  }
}

// The format's rules, one by one.
TEST(Safetensors, EveryRuleOfTheFrameHasOneClearRefusal) {
  const std::string ok = entry("a", "F32", "[1]", "[0,4]");
  const RefusalCase cases[] = {
      {"", "8 bytes of header length"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "pointer of Git LFS"},
      {"1234567", "8 bytes of header length"},
      {testing::length_bytes(100'000'001) + std::string(64, ' '), "at most 100000000"},
      {testing::length_bytes(~0ULL) + "{}", "at most 100000000"},
      {testing::length_bytes(3) + "{}", "truncated"},
      {testing::length_bytes(0), "must begin with '{'"},
      {file_of(" {}", 0), "must begin with '{'"},
      {file_of("[]", 0), "must begin with '{'"},
      {file_of("{", 0), "must be JSON"},
      {file_of("{}x", 0), "must be JSON"},
      {file_of("{\"a\xFF\":1}", 0), "must be JSON"},
      {file_of("{" + ok + "," + ok + "}", 8), "there twice"},
      {file_of("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
               4),
       "there twice"},
      {file_of("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0), "there twice"},
      {file_of("{\"__metadata__\":{\"a\":1}}", 0), "must be strings"},
      {file_of("{\"__metadata__\":{\"a\":{}}}", 0), "wrong place"},
      {file_of("{\"__metadata__\":{\"a\":[\"b\"]}}", 0), "wrong place"},
      {file_of("{\"__metadata__\":\"x\"}", 0), "must be strings"},
  };
  expect_refusals(cases);
}

TEST(Safetensors, EveryRuleOfATensorHasOneClearRefusal) {
  const std::string ok = entry("a", "F32", "[1]", "[0,4]");
  const RefusalCase cases[] = {
      {file_of("{\"a\":5}", 0), "wrong type or place"},
      {file_of("{\"a\":[5]}", 0), "wrong place"},
      {file_of("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4), "data_offsets is required"},
      {file_of("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4), "shape is required"},
      {file_of("{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4), "dtype is required"},
      {file_of("{" + entry("a", "F33", "[1]", "[0,4]") + "}", 4), "unknown dtype \"F33\""},
      {file_of("{" + entry("a", "F32", "[-1]", "[0,4]") + "}", 4), "wrong type"},
      {file_of("{" + entry("a", "F32", "[1.0]", "[0,4]") + "}", 4), "wrong type"},
      {file_of("{" + entry("a", "F32", "[1]", "[-0,4]") + "}", 4), "wrong type"},
      {file_of("{" + entry("a", "F32", "[[1]]", "[0,4]") + "}", 4), "wrong place"},
      {file_of("{" + entry("a", "F32", "1", "[0,4]") + "}", 4), "wrong type"},
      {file_of("{" + entry("a", "F32", "[1]", "[0,4,8]") + "}", 4), "two numbers"},
      {file_of("{" + entry("a", "F32", "[1]", "[0]") + "}", 4), "two numbers"},
      {file_of("{" + entry("a", "F32", "[1]", "[4,0]") + "}", 4), "must lie in the file"},
      {file_of("{" + entry("a", "F32", "[1]", "[0,8]") + "}", 4), "must lie in the file"},
      {file_of("{" + entry("a", "F32", "[1]", "[0,18446744073709551615]") + "}", 4), "must lie in"},
      {file_of("{" + entry("a", "F32", "[1]", "[0,99999999999999999999]") + "}", 4), "wrong type"},
      {file_of("{" + entry("a", "F32", "[2]", "[0,4]") + "}", 4), "must fit data_offsets"},
      {file_of("{" + entry("a", "F32", "[4611686018427387904,4]", "[0,0]") + "}", 0), "too large"},
      {file_of("{" + entry("a", "F32", "[4611686018427387904,4,0]", "[0,0]") + "}", 0),
       "too large"},
      {file_of("{" + entry("a", "F32", "[576460752303423488]", "[0,0]") + "}", 0), "too large"},
      {file_of("{" + entry("a", "F4", "[3]", "[0,1]") + "}", 1), "must fit data_offsets"},
      {file_of("{" + entry("a", "F4", "[3]", "[0,2]") + "}", 2), "must fit data_offsets"},
      {file_of(
           "{" + entry("a", "U8", "[2]", "[0,2]") + "," + entry("b", "U8", "[2]", "[1,3]") + "}",
           4),
       "holes"},
      {file_of(
           "{" + entry("a", "U8", "[2]", "[0,2]") + "," + entry("b", "U8", "[2]", "[0,2]") + "}",
           3),
       "overlap"},
      {file_of(
           "{" + entry("a", "U8", "[2]", "[0,2]") + "," + entry("b", "U8", "[2]", "[3,5]") + "}",
           5),
       "holes"},
      {file_of("{" + entry("a", "U8", "[2]", "[1,3]") + "}", 3), "holes"},
      {file_of("{" + ok + "}", 5), "must end with the file"},
      {file_of("{}", 1), "must end with the file"},
  };
  expect_refusals(cases);
}

// The three abuse files of the reference repository's attacks/: a length that lies, entries that
// all claim the same bytes, very many entries. The limit of the whole test program is the clock.
TEST(Safetensors, AttacksFailFast) {
  EXPECT_NE(refusal(testing::length_bytes(99'999'999) + "{\"a\":"), "NOTHING THROWN");
  std::string overlapping = "{";
  std::string many = "{";
  for (int i = 0; i < 1'000'000; ++i) {
    overlapping += (i == 0 ? "" : ",") + entry("t" + std::to_string(i), "U8", "[64]", "[0,64]");
    if (i < 100'000)
      many += (i == 0 ? "" : ",") + entry("t" + std::to_string(i), "U8", "[0]", "[0,0]");
  }
  EXPECT_NE(refusal(file_of(overlapping + "}", 64)).find("t1\": data of tensors must not overlap"),
            std::string::npos);
  EXPECT_NE(refusal(file_of(many + "}", 64)).find("must end with the file"), std::string::npos);
}

// The layout by the rules: header padded to 8 bytes, types by falling alignment, then names.
TEST(Safetensors, PlanFollowsTheReferenceOrder) {
  const SafetensorsPlan plan = plan_safetensors({{"b", "F32", {2}},
                                                 {"c", "U8", {3}},
                                                 {"a", "F32", {}},
                                                 {"d", "I64", {1}},
                                                 {"e", "BF16", {5}}},
                                                {});
  std::string names;
  for (const StoredTensor& tensor : plan.tensors) names += tensor.name;
  EXPECT_EQ(names, "dabec");
  EXPECT_EQ(plan.head.size() % 8, 0U);
  EXPECT_EQ(plan.file_bytes.count(),
            static_cast<std::int64_t>(plan.head.size()) + 8 + 4 + 8 + 10 + 3);
  const std::string file = plan.head + std::string(33, '\0');
  EXPECT_EQ(parse_safetensors(std::as_bytes(std::span(file)), "f").tensors.size(), 5U);
}

TEST(Safetensors, WrittenFilesReadBackInSlices) {
  const testing::ScratchFolder folder;
  std::vector<float> a = {1, 2, 3, 4, 5, 6};
  std::vector<float> b = {7};
  const std::string path = (folder.path() / "x.safetensors").string();
  const std::vector<core::TensorSlice> whole = {
      core::slice_in_memory("b", {}, core::Elements(0), b.data(), core::Elements(1)),
      core::slice_in_memory("a", {2, 3}, core::Elements(0), a.data(), core::Elements(6))};
  write_safetensors(path, whole);
  const TensorFile file(path);
  std::vector<float> part(3);
  file.read(core::slice_in_memory("a", {2, 3}, core::Elements(2), part.data(), core::Elements(3)));
  EXPECT_EQ(part, (std::vector<float>{3, 4, 5}));
  file.read(core::slice_in_memory("b", {}, core::Elements(0), part.data(), core::Elements(1)));
  EXPECT_EQ(part[0], 7);
  const auto refused = [&](const core::TensorSlice& slice) {
    return testing::message_of<core::UserError>(11, [&] { file.read(slice); });
  };
  const std::string shape = refused(
      core::slice_in_memory("a", {3, 2}, core::Elements(0), part.data(), core::Elements(3)));
  EXPECT_NE(shape.find("[2, 3] in the file, [3, 2] wanted"), std::string::npos) << shape;
  const std::string name =
      refused(core::slice_in_memory("z", {1}, core::Elements(0), part.data(), core::Elements(1)));
  EXPECT_NE(name.find("tensor z is required"), std::string::npos) << name;
}

}  // namespace
}  // namespace fm::checkpoint
