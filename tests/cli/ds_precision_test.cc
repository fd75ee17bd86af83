// The element type and fp16's loss scale, from every key of the JSON that speaks of them.
#include <gtest/gtest.h>

#include "tests/cli/read_ds.h"

namespace fm::cli {
namespace {

TEST(DsPrecision, PrecisionFp32OverridesByName) {
  const std::string json =
      "{bf16: {enabled: true},\nprecision: \"bfloat16\",\n"
      "data_types: {grad_accum_dtype: \"bf16\"}}";
  EXPECT_EQ(read(json).element, core::DType::kBF16);
  EXPECT_TRUE(holds(notes(json), "ignored data_types.grad_accum_dtype: gradients are summed"));
  EXPECT_EQ(read(json, core::DType::kF32).element, core::DType::kF32);
  EXPECT_TRUE(holds(notes(json, core::DType::kF32),
                    "--precision fp32 overrides bf16.enabled = true (line 1)"));
  EXPECT_EQ(read(json, core::DType::kF16).element, core::DType::kF16);
  EXPECT_TRUE(holds(notes(json, core::DType::kF16),
                    "--precision fp16 overrides precision = \"bfloat16\" (line 2)"));
  EXPECT_EQ(notes(json, core::DType::kBF16).find("overrides"), std::string::npos);
}

TEST(DsPrecision, Fp16HasTheLossScaleOfDeepSpeed) {
  const auto scaler = [](const std::string& values, int zero_stage) {
    const auto options = read(core::concat("{zero_optimization: {stage: ", zero_stage,
                                           "}, fp16: {enabled: true", values, "}}"));
    EXPECT_EQ(options.element, core::DType::kF16);
    return options.loss_scale.value();
  };
  const optim::LossScaleOptions plain = scaler("", 1);
  EXPECT_EQ(plain.fixed, 0.0);
  EXPECT_EQ(plain.first, 65536.0);
  EXPECT_EQ(plain.window, 1000);
  EXPECT_EQ(plain.hysteresis, 2);
  EXPECT_FALSE(plain.refills_when_clean);
  EXPECT_EQ(plain.least, 1.0);
  EXPECT_TRUE(plain.ends_at_least);
  const optim::LossScaleOptions given = scaler(
      ", initial_scale_power: 8, loss_scale_window: 5, hysteresis: 3, min_loss_scale: 4, "
      "consecutive_hysteresis: true",
      2);
  EXPECT_EQ(given.first, 256.0);
  EXPECT_EQ(given.window, 5);
  EXPECT_EQ(given.hysteresis, 3);
  EXPECT_TRUE(given.refills_when_clean);
  EXPECT_EQ(given.least, 4.0);
  // Without ZeRO DeepSpeed's is another scaler.
  EXPECT_EQ(scaler(", hysteresis: 3", 0).hysteresis, 1);
  EXPECT_FALSE(scaler("", 0).ends_at_least);
  EXPECT_EQ(scaler(", loss_scale: 128", 3).fixed, 128.0);
  EXPECT_FALSE(read("{bf16: {enabled: true}}").loss_scale);
  EXPECT_FALSE(read("{fp16: {enabled: true}}", core::DType::kF32).loss_scale);
  for (const char* wrong : {"loss_scale_window: 0", "hysteresis: 0", "min_loss_scale: 0",
                            "loss_scale: -1", "initial_scale_power: 200"}) {
    const std::string said = refusal(
        std::string("{zero_optimization: {stage: 1}, fp16: {enabled: true, ") + wrong + "}}");
    EXPECT_TRUE(holds(said, "fp16.")) << wrong;
    EXPECT_TRUE(holds(said, "correct it (")) << wrong;
  }
}

TEST(DsPrecision, Bf16IsTheElementTypeUnderBothNamesOfItsBlock) {
  EXPECT_EQ(read("{}").element, core::DType::kF32);
  EXPECT_EQ(read("{bf16: {enabled: false}}").element, core::DType::kF32);
  EXPECT_EQ(read("{bf16: {enabled: \"auto\"}}").element, core::DType::kF32);
  EXPECT_EQ(read("{bfloat16: {enabled: true}}").element, core::DType::kBF16);
  const auto options = read(R"({"bf16": {"enabled": true}, "precision": "bfloat16",
    "data_types": {"param_dtype": "BF16", "grad_accum_dtype": "fp32"},
    "optimizer": {"type": "AdamW"}, "communication_data_type": "fp32"})");
  EXPECT_EQ(options.element, core::DType::kBF16);
  EXPECT_TRUE(options.notes.empty()) << core::join(options.notes, "\n");
}

TEST(DsPrecision, WhatDisagreesAboutTheElementTypeIsRefused) {
  EXPECT_EQ(read("{precision: \"bfloat16\"}").element, core::DType::kBF16);
  EXPECT_EQ(read("{precision: \"half\"}").element, core::DType::kF16);
  EXPECT_TRUE(holds(refusal("{fp16: {enabled: true}, precision: \"bfloat16\"}"),
                    "precision = \"bfloat16\": must agree with the blocks \"bf16\" and "
                    "\"fp16\", which say fp16; change it, or give --precision bf16, fp16 or fp32"));
  EXPECT_TRUE(holds(refusal("{bf16: {enabled: true},\nprecision: \"fp32\"}"),
                    "precision = \"fp32\": must agree with the blocks \"bf16\" and \"fp16\""));
  EXPECT_TRUE(holds(refusal("{precision: \"int8\"}"), "precision must be one of \"fp32\""));
  EXPECT_TRUE(holds(refusal("{data_types: {param_dtype: \"half\"}}"),
                    "data_types.param_dtype = \"half\": conflicts with the enabled "
                    "precision mode, fp32"));
  EXPECT_TRUE(holds(refusal("{bf16: {enabled: true}, data_types: {param_dtype: \"fp32\"}}"),
                    "conflicts with the enabled precision mode, bf16"));
  EXPECT_TRUE(holds(refusal("{bf16: {enabled: true}, fp16: {enabled: true}}"),
                    "bfloat16 and fp16 modes cannot be simultaneously enabled"));
}

// Sums arrive in fp32 unless a key asks for less: the element type alone does not.
TEST(DsPrecision, GradientsTravelAsTheJsonSays) {
  using comm::Travel;
  EXPECT_EQ(read("{}").gradient_travel, Travel::kWhole);
  EXPECT_EQ(read("{bf16: {enabled: true}}").gradient_travel, Travel::kWhole);
  EXPECT_EQ(read("{fp16: {enabled: true}}").gradient_travel, Travel::kWhole);
  EXPECT_EQ(read("{communication_data_type: \"fp32\"}").gradient_travel, Travel::kWhole);
  EXPECT_EQ(read("{communication_data_type: null}").gradient_travel, Travel::kWhole);
  const auto bf16 = read("{communication_data_type: \"BF16\"}");
  EXPECT_EQ(bf16.gradient_travel, Travel::kBF16);
  EXPECT_FALSE(holds(core::join(bf16.notes, "\n"), "communication_data_type"));
  EXPECT_EQ(read("{communication_data_type: \"fp16\"}").gradient_travel, Travel::kF16);
  // DeepSpeed's rule for ranks that share rows.
  EXPECT_EQ(read("{sequence_parallel_size: 2, communication_data_type: \"bf16\"}").gradient_travel,
            Travel::kWhole);
  EXPECT_TRUE(holds(notes("{sequence_parallel_size: 2, communication_data_type: \"bf16\"}"),
                    "communication_data_type has no effect where ranks share rows"));
  EXPECT_EQ(read("{sequence_parallel_size: 2, seq_parallel_communication_data_type: \"bf16\"}")
                .gradient_travel,
            Travel::kBF16);
}

TEST(DsPrecision, ZeROPlusPlusNeedsStage3) {
  using comm::Travel;
  const auto options = read(R"({"communication_data_type": "bf16", "zero_optimization": {
    "stage": 3, "zero_hpz_partition_size": 8, "zero_quantized_weights": true,
    "zero_quantized_gradients": true}})");
  EXPECT_EQ(options.gradient_travel, Travel::kInt4);
  EXPECT_EQ(options.weight_travel, Travel::kInt8);
  EXPECT_EQ(options.hpz_ranks, 8);
  EXPECT_FALSE(holds(core::join(options.notes, "\n"), "zero_"));
  const auto off = read(R"({"zero_optimization": {"stage": 2, "zero_hpz_partition_size": 1,
    "zero_quantized_weights": false, "zero_quantized_gradients": "auto"}})");
  EXPECT_EQ(off.gradient_travel, Travel::kWhole);
  EXPECT_EQ(off.weight_travel, Travel::kWhole);
  EXPECT_EQ(off.hpz_ranks, 1);
  for (const char* asked : {"zero_hpz_partition_size: 8", "zero_quantized_weights: true",
                            "zero_quantized_gradients: true"}) {
    const std::string said = refusal(std::string("{zero_optimization: {stage: 2, ") + asked + "}}");
    EXPECT_TRUE(holds(said, "needs ZeRO stage 3")) << said;
  }
}

}  // namespace
}  // namespace fm::cli
