#include "checkpoint/torch_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>

#include "checkpoint/hf_folder.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/safetensors_parse.h"
#include "core/check.h"
#include "tests/checkpoint/mutated.h"
#include "tests/checkpoint/torch_file_bytes.h"
#include "tests/mutation_rounds.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::checkpoint {
namespace {

using testing::pickle_of;
using testing::Records;
using testing::SavedTensor;
using testing::zip_of;

constexpr std::size_t kNumbers = 64;  // bytes of a record

const SavedTensor kMatrix{"w", "FloatStorage", "0", 2, {2, 3}, {3, 1}};

Records records_of(const std::string& pickle) {
  return {{"archive/data.pkl", pickle},
          {"archive/byteorder", "little"},
          {"archive/data/0", std::string(kNumbers, '\0')},
          {"archive/version", "3\n"}};
}

SafetensorsHeader header_of(const std::string& file) {
  return parse_torch_file(std::as_bytes(std::span(file)), "f.bin");
}

std::string refused(const std::string& file) {
  return testing::message_of<core::UserError>(11, [&] { header_of(file); });
}

std::string refused_tensor(const SavedTensor& tensor) {
  return refused(zip_of(records_of(pickle_of({tensor}))));
}

TEST(TorchFile, TensorsAreWhereTheirStoragesSay) {
  for (const testing::Zip zip : {testing::Zip::kPlain, testing::Zip::kWide}) {
    Records records = records_of(pickle_of({kMatrix,
                                            {"tied", "FloatStorage", "0", 2, {2, 3}, {3, 1}},
                                            {"half", "BFloat16Storage", "7", 1, {1, 2}, {9, 1}},
                                            {"scalar", "LongStorage", "0", 7, {}, {}},
                                            {"none", "BoolStorage", "7", 0, {0, 4}, {4, 1}}}));
    records.emplace_back("archive/data/7", "0123456789");
    const std::string file = zip_of(records, zip);
    const SafetensorsHeader header = header_of(file);
    ASSERT_EQ(header.tensors.size(), 5U);
    const auto find = [&](const char* name) {
      return *std::ranges::find(header.tensors, name, &StoredTensor::name);
    };
    EXPECT_EQ(find("w").dtype, "F32");
    EXPECT_EQ(find("w").shape, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ((find("w").end - find("w").begin).count(), 24);
    EXPECT_EQ(find("w").begin, find("tied").begin);
    EXPECT_EQ((find("scalar").begin - find("w").begin).count(), 7 * 8 - 2 * 4);
    EXPECT_EQ(find("half").dtype, "BF16");
    const auto at = static_cast<std::size_t>(find("half").begin.count());
    EXPECT_EQ(file.substr(at, 4), "2345");
    EXPECT_EQ(find("none").begin, find("none").end);
  }
}

TEST(TorchFile, PicklesOfProtocolFourAndParametersAreRead) {
  const std::string parameter =
      "ctorch._utils\n_rebuild_parameter\n(" + testing::tensor_ops(kMatrix) + "\x88}tR";
  const std::string frame = "\x80\x04\x95" + testing::little(400, 8);
  const std::string names =
      "\x8C\x0B"
      "collections\x8C\x0B"
      "OrderedDict\x93\x94)R\x94";
  const SafetensorsHeader header = header_of(zip_of(records_of(frame + names +
                                                               "\x8C\x05"
                                                               "a.b.c" +
                                                               parameter + "s.")));
  ASSERT_EQ(header.tensors.size(), 1U);
  EXPECT_EQ(header.tensors[0].name, "a.b.c");
  EXPECT_EQ(header.tensors[0].shape, (std::vector<std::int64_t>{2, 3}));
}

TEST(TorchFile, AFolderOfTwoFilesGivesTheirNumbers) {
  const testing::ScratchFolder folder;
  const float numbers[] = {9, 9, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0, 0};
  Records records = records_of(pickle_of({kMatrix}));
  records[2].second = {reinterpret_cast<const char*>(numbers), sizeof(numbers)};
  folder.write("pytorch_model-00001-of-00002.bin", zip_of(records));
  records[0].second = pickle_of({{"h", "HalfStorage", "0", 0, {2}, {1}}});
  records[2].second = testing::little(0xC000'3C00, 4);  // -2, 1
  folder.write("pytorch_model-00002-of-00002.bin", zip_of(records));
  folder.write("pytorch_model.bin.index.json",
               R"({"weight_map": {"w": "pytorch_model-00001-of-00002.bin",)"
               R"( "h": "pytorch_model-00002-of-00002.bin"}})");
  const HfFolder opened(folder.path());
  std::vector<float> part(4);
  opened.read(
      core::slice_in_memory("w", {2, 3}, core::Elements(1), part.data(), core::Elements(4)));
  EXPECT_EQ(part, (std::vector<float>{2, 3, 4, 5}));
  opened.read(core::slice_in_memory("h", {2}, core::Elements(0), part.data(), core::Elements(2)));
  EXPECT_EQ(part, (std::vector<float>{1, -2, 4, 5}));
}

// The check value of CRC-32, and a file as torch 2.9 wrote it: torch.save({"w": torch.arange(6.)}).
TEST(TorchFile, SumsAreThoseOfZip) {
  EXPECT_EQ(crc32_of(std::as_bytes(std::span("123456789", 9))), 0xCBF43926U);
  std::string arange;
  for (const float each : {0.0F, 1.0F, 2.0F, 3.0F, 4.0F, 5.0F}) {
    arange += testing::little(std::bit_cast<std::uint32_t>(each), 4);
  }
  EXPECT_EQ(crc32_of(std::as_bytes(std::span(arange))), 0x91E79017U);
}

TEST(TorchFile, AFlippedBitIsFoundWhereItIsRead) {
  const testing::ScratchFolder folder;
  Records records = records_of(pickle_of({kMatrix, {"h", "HalfStorage", "7", 0, {2}, {1}}}));
  records.emplace_back("archive/data/7", "abcd");
  const std::string good = zip_of(records);
  const auto read = [&](const std::string& bytes, const std::string& name) {
    const TensorFile file(folder.write("pytorch_model.bin", bytes), parse_torch_file);
    float out[2];
    const std::vector<std::int64_t> shape =
        name == "w" ? std::vector<std::int64_t>{2, 3} : std::vector<std::int64_t>{2};
    const auto slice =
        core::slice_in_memory(name, shape, core::Elements(0), out, core::Elements(2));
    return testing::message_of<core::UserError>(11, [&] { file.read(slice); });
  };
  for (const char* const name : {"w", "h"}) EXPECT_EQ(read(good, name), "NOTHING THROWN");
  const std::size_t numbers = good.find(std::string(kNumbers, '\0'));
  for (const std::size_t at : {std::size_t{0}, std::size_t{8}, kNumbers - 1}) {
    std::string bad = good;
    bad[numbers + at] = '\1';  // subnormal: a number like any other
    EXPECT_NE(
        read(bad, "w").find("pytorch_model.bin: record archive/data/0 must be as it was saved; "
                            "get the file again (CRC-32 "),
        std::string::npos)
        << read(bad, "w");
    EXPECT_EQ(read(bad, "h"), "NOTHING THROWN");
  }
  std::string renamed = good;
  renamed[good.find("X\1") + 5] = 'v';  // "w" of the pickle
  EXPECT_NE(refused(renamed).find("f.bin: record archive/data.pkl must be as it was saved"),
            std::string::npos)
      << refused(renamed);
}

// torch.serialization.set_crc32_options(False) leaves zeros in the directory.
TEST(TorchFile, SumsThatTorchLeftOutAreNotMissed) {
  std::string file = zip_of(records_of(pickle_of({kMatrix})));
  for (std::size_t at = file.find("PK\1\2"); at != file.npos; at = file.find("PK\1\2", at + 1)) {
    file.replace(at + 16, 4, 4, '\0');
  }
  EXPECT_EQ(header_of(file).tensors.size(), 1U);
  EXPECT_TRUE(header_of(file).sums.empty());
}

TEST(TorchFile, WhatIsNoDictionaryOfTensorsIsRefused) {
  const auto expect = [](const std::string& said, const std::string& words) {
    EXPECT_NE(said.find(words), said.npos) << words << " is not in: " << said;
    EXPECT_TRUE(said.starts_with("f.bin: ")) << said;
  };
  const auto of_pickle = [](const std::string& ops) {
    return refused(zip_of(records_of("\x80\x02" + ops + ".")));
  };
  expect(refused("\x80\x02\x8A"), "is of torch before 1.6");
  expect(refused("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n"), "Git LFS");
  expect(refused("weights"), "a file of torch.save is a ZIP archive; get the file again (7 bytes)");
  expect(refused(zip_of({{"a/other", ""}})), "must hold a record data.pkl");
  expect(refused(zip_of(records_of("."), testing::Zip::kPlain, 8)), "without compression");
  expect(of_pickle("]"), "a dictionary of names and tensors is required");
  expect(of_pickle("}" + testing::text_op("epoch") + "K\3s"),
         "every value must be a dense tensor; save model.state_dict() alone (epoch is none)");
  expect(of_pickle("}K\1K\2s"), "keys must be names");
  // Who would run this would run a program.
  expect(of_pickle("cos\nsystem\n(" + testing::text_op("true") + "tR"),
         "a dictionary of names and tensors is required");
  expect(of_pickle("S'a'\n"), "an opcode that torch.save writes is required, not 83");
  expect(refused(zip_of(records_of(pickle_of({kMatrix, kMatrix})))), "w must be there once");
  Records big = records_of(pickle_of({kMatrix}));
  big[1].second = "big";
  expect(refused(zip_of(big)), "numbers must be little-endian");
}

TEST(TorchFile, ATensorThatItsNumbersDoNotHoldIsRefused) {
  const auto expect = [](const SavedTensor& tensor, const std::string& words) {
    const std::string said = refused_tensor(tensor);
    EXPECT_NE(said.find(words), said.npos) << words << " is not in: " << said;
  };
  expect({"w", "FloatStorage", "0", 2, {3, 5}, {5, 1}},
         "tensor w must lie in its numbers; get the file again (shape [3, 5] in 64 bytes)");
  expect({"w", "FloatStorage", "0", 17, {0}, {1}}, "must lie in its numbers");
  expect({"w", "FloatStorage", "0", 0, {0xFFFFFFFF, 0xFFFFFFFF, 4}, {1, 1, 1}},
         "must lie in its numbers");
  expect({"w", "FloatStorage", "0", 0, {2, 3}, {1}}, "must lie in its numbers");
  expect({"w", "FloatStorage", "0", 0, {2, 3}, {1, 2}},
         "must be contiguous; save its .contiguous() (shape [2, 3], strides [1, 2])");
  expect({"w", "FloatStorage", "5", 0, {2}, {1}}, "get the file again (no record data/5)");
  expect({"w", "ComplexFloatStorage", "0", 0, {2}, {1}}, "convert it (torch ComplexFloatStorage)");
}

TEST(TorchFile, EveryCutFileIsRefused) {
  for (const testing::Zip zip : {testing::Zip::kPlain, testing::Zip::kWide}) {
    const std::string file = zip_of(records_of(pickle_of({kMatrix})), zip);
    for (std::size_t size = 0; size < file.size(); ++size) {
      EXPECT_NE(refused(file.substr(0, size)), "NOTHING THROWN") << size;
    }
  }
}

// Thousands of damaged files: the reader refuses with its own error, or every tensor lies in the
// file and has the bytes of its shape.
TEST(TorchFileMutation, NothingUnsoundIsAccepted) {
  const std::vector<SavedTensor> tensors = {kMatrix,
                                            {"h", "HalfStorage", "0", 0, {4, 1, 2}, {2, 5, 1}},
                                            {"e", "ByteStorage", "0", 1, {}, {}}};
  const std::string ops =
      "().NJKMX\x8A\x80\x85\x86\x87\x88\x89\x93\x94\x8Cqrhj}]uesaQRbtc0\xFF\n\1";
  std::mt19937 random(20261126);
  int accepted = 0;
  const int rounds = testing::mutation_rounds(40'000);
  for (int round = 0; round < rounds; ++round) {
    const testing::Zip zip = random() % 2 == 0 ? testing::Zip::kPlain : testing::Zip::kWide;
    std::string pickle = pickle_of(tensors);
    const bool outside = random() % 3 == 0;  // else the archive around the pickle is right
    std::string file = outside ? zip_of(records_of(pickle), zip) : "";
    std::string& target = outside ? file : pickle;
    target = testing::mutated(std::move(target), ops, random);
    if (!outside) file = zip_of(records_of(pickle), zip);
    try {
      for (const StoredTensor& tensor : header_of(file).tensors) {
        auto bytes = static_cast<std::int64_t>(kStoredTypes[rank_of_type(tensor.dtype)].bits / 8);
        for (const std::int64_t size : tensor.shape) bytes *= size;
        ASSERT_EQ((tensor.end - tensor.begin).count(), bytes);
        ASSERT_GE(tensor.begin.count(), 0);
        ASSERT_LE(tensor.end.count(), static_cast<std::int64_t>(file.size()));
      }
      ++accepted;
    } catch (const core::UserError& error) {
      ASSERT_EQ(error.code(), core::ExitCode::kDataError);
    }
  }
  EXPECT_GT(accepted, rounds / 80);
}

}  // namespace
}  // namespace fm::checkpoint
