#include "engine/plan/export_dtype.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/state/export_checkpoint.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

// The bytes of tensors in a safetensors file (8 bytes of length, a JSON header, data).
std::string tensors_of(const std::string& folder) {
  const std::string file = content(folder + "/model.safetensors");
  std::uint64_t head = 0;
  std::memcpy(&head, file.data(), sizeof head);
  return file.substr(8 + head);
}

std::string config_dtype(const std::string& folder) {
  return nlohmann::json::parse(content(folder + "/config.json")).at("dtype");
}

// To the nearest, ties to the even one: as torch's .to(bfloat16) and IEEE 754 have it.
std::string rounded_to_bf16(const std::string& floats) {
  std::string out;
  for (std::size_t at = 0; at < floats.size(); at += 4) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, floats.data() + at, 4);
    bits += 0x7FFFU + ((bits >> 16U) & 1U);
    const auto half = static_cast<std::uint16_t>(bits >> 16U);
    out.append(reinterpret_cast<const char*>(&half), 2);
  }
  return out;
}

model::ModelFacts facts_of(const char* config) {
  model::ModelFacts facts;
  facts.config_json = config;
  return facts;
}

class ExportDType : public TrainerCase {
 protected:
  // A folder of that type to start from.
  std::string start(const std::string& dtype) {
    const TrainOptions first = options("first-" + dtype, 1);
    EXPECT_EQ(run(first), 0);
    const std::string out = folder() / ("start-" + dtype);
    export_checkpoint({.checkpoint = first.output_dir, .out = out, .dtype = dtype});
    return out;
  }
  TrainOptions tuned(const std::string& from, const std::string& output) {
    TrainOptions out = options(output, 2);
    out.model_config.clear();
    out.init_ckpt = from;
    return out;
  }
};

TEST_F(ExportDType, IsThatOfTheModelOfTheStart) {
  const std::string from = start("bf16");
  TrainOptions narrow = tuned(from, "narrow");
  testing::internal::CaptureStdout();
  ASSERT_EQ(run(narrow, 2), 0);
  const std::string said = testing::internal::GetCapturedStdout();
  EXPECT_NE(said.find("  model      " + narrow.output_dir + "/hf, bf16 as in " + from),
            std::string::npos)
      << said;
  TrainOptions wide = tuned(from, "wide");
  wide.export_dtype = core::DType::kF32;
  ASSERT_EQ(run(wide, 1), 0);
  EXPECT_EQ(config_dtype(narrow.output_dir + "/hf"), "bfloat16");
  EXPECT_EQ(config_dtype(wide.output_dir + "/hf"), "float32");
  EXPECT_EQ(tensors_of(narrow.output_dir + "/hf"),
            rounded_to_bf16(tensors_of(wide.output_dir + "/hf")));
}

TEST_F(ExportDType, OfMastersInACheckpointStaysFp32) {
  const std::string from = start("bf16");
  TrainOptions whole = tuned(from, "whole");
  ASSERT_EQ(run(whole), 0);
  TrainOptions part = tuned(from, "part");
  part.train_steps = 1;
  ASSERT_EQ(run(part), 0);
  part.train_steps = 2;
  ASSERT_EQ(run(part), 0);
  EXPECT_EQ(tensors_of(part.output_dir + "/hf"), tensors_of(whole.output_dir + "/hf"));
  EXPECT_EQ(metrics(part).at(2).loss, metrics(whole).at(2).loss);
}

TEST_F(ExportDType, OfRandomWeightsAndOfWhatCannotBeExportedIsFp32) {
  const TrainOptions random = options("random", 1);
  EXPECT_EQ(export_dtype_of(random, facts_of(R"({"dtype": "bfloat16"})")), core::DType::kF32);
  TrainOptions given = random;
  given.init_ckpt = "folder";
  const auto of = [&](const char* config) { return export_dtype_of(given, facts_of(config)); };
  EXPECT_EQ(of(R"({"torch_dtype": "float16"})"), core::DType::kF16);
  EXPECT_EQ(of(R"({"dtype": "bfloat16"})"), core::DType::kBF16);
  EXPECT_EQ(of(R"({"dtype": "float64"})"), core::DType::kF32);
  given.pretrain = true;
  EXPECT_EQ(of(R"({"dtype": "bfloat16"})"), core::DType::kF32);
}

}  // namespace
}  // namespace fm::engine
