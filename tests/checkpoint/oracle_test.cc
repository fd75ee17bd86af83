// The reference libraries' opinion.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>

#include "checkpoint/hf_export.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/safetensors_plan.h"
#include "comm/communicator.h"
#include "tests/checkpoint/checkpoint_cases.h"
#include "tests/checkpoint/safetensors_bytes.h"
#include "tests/oracle/python.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::checkpoint {
namespace {

class Oracle : public ::testing::Test {
 protected:
  // Exit status of the script; its output is in `output_`.
  int run(const std::string& arguments) {
    const std::string out = (folder_.path() / "output.txt").string();
    const std::string command =
        oracle::python() + " " + FM_ORACLE_SCRIPT + " " + arguments + " > " + out;
    const int status = std::system(command.c_str());
    output_ = testing::file_content(out);
    return status;
  }

  testing::ScratchFolder folder_;
  std::string output_;
};

TEST_F(Oracle, OurFilesAreByteForByteTheReferences) {
  std::vector<float> six(6), five(5), one = {7.5F};
  std::iota(six.begin(), six.end(), 0.0F);
  std::iota(five.begin(), five.end(), 0.0F);
  const auto whole = [](std::string name, std::vector<std::int64_t> shape,
                        std::vector<float>& floats) {
    return core::slice_in_memory(std::move(name), std::move(shape), core::Elements(0),
                                 floats.data(),
                                 core::Elements(static_cast<std::int64_t>(floats.size())));
  };
  std::vector<float> none;
  const std::vector<core::TensorSlice> tensors = {
      whole("model.layers.9.w", {}, one), whole("model.layers.10.w", {2, 3}, six),
      whole("quote\"\\\n\xC3\xA9\xF0\x9F\x98\x80", {5}, five), whole("empty", {0, 4}, none)};
  const std::string ours = (folder_.path() / "ours.safetensors").string();
  const std::string theirs = (folder_.path() / "theirs.safetensors").string();
  write_safetensors(ours, tensors);
  ASSERT_EQ(run("write " + theirs), 0);
  EXPECT_EQ(testing::file_content(ours), testing::file_content(theirs));
}

// Same verdict as the reference reader on damaged files. Ours is stricter in one thing: keys that
// are there twice (the format forbids them, the reference lets some pass).
TEST_F(Oracle, VerdictsOnDamagedFilesAreTheReferences) {
  const std::string seed = testing::file_of(
      "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],"
      "\"data_offsets\":[0,24]},\"b\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[24,26]}}",
      26);
  const std::string letters = "{}[]\":,0123456789-. ";
  std::mt19937 random(11);
  std::string list;
  std::vector<std::string> files;
  std::vector<std::string> ours;
  for (int round = 0; round < 1500; ++round) {
    std::string file = seed;
    const std::size_t at = random() % (file.size() - 26);
    if (round % 3 == 0) file[at] = letters[random() % letters.size()];
    if (round % 3 == 1) file.insert(at, 1, letters[random() % letters.size()]);
    if (round % 3 == 2) file.erase(at, 1 + random() % 2);
    if (at >= 8) file.replace(0, 8, testing::length_bytes(file.rfind('}') - 7));
    const std::string path = folder_.write(std::to_string(round) + ".safetensors", file);
    list += path + "\n";
    files.push_back(file);
    const std::string refusal =
        testing::message_of<core::UserError>(11, [&] { TensorFile opened(path); });
    ours.push_back(refusal == "NOTHING THROWN" ? "accept" : refusal);
  }
  ASSERT_EQ(run("verdicts " + folder_.write("list", list)), 0);
  std::istringstream lines(output_);
  int accepted = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    std::string theirs;
    ASSERT_TRUE(std::getline(lines, theirs));
    accepted += theirs == "accept" ? 1 : 0;
    if (ours[i].find("there twice") != std::string::npos) continue;
    EXPECT_EQ(ours[i] == "accept", theirs == "accept") << ours[i] << "\n" << files[i];
  }
  EXPECT_GT(accepted, 50);
}

TEST_F(Oracle, TransformersLoadsTheByteTokenizer) {
  std::vector<float> weights(4);
  const std::unique_ptr<comm::Communicator> world = comm::make_solo();
  const std::filesystem::path out = folder_.path() / "hf";
  export_hf_folder({.folder = out,
                    .config_json = "{\"model_type\": \"llama\", \"vocab_size\": 259}",
                    .tensors = {{"x", {4}}},
                    .mine = {core::slice_in_memory("x", {4}, core::Elements(0), weights.data(),
                                                   core::Elements(4))},
                    .tokenizer_from = {}},
                   *world);
  EXPECT_EQ(run("tokenizer " + out.string()), 0);
  EXPECT_TRUE(has_byte_tokenizer(out.string() + "_again"));
}

}  // namespace
}  // namespace fm::checkpoint
