// Keys, defaults and refusals of the families that are made of pieces of others. Expected:
// configuration_*.py and modeling_*.py of transformers 5.23.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>

#include "core/check.h"
#include "model/families/families.h"

namespace fm::model {
namespace {

DecoderConfig read(const std::string& type, const std::string& more = "", int layers = 6) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string path = testing::TempDir() + "/fm_composed_" + test->name() + ".json";
  std::ofstream(path) << R"({"model_type": ")" << type << R"(", "vocab_size": 200000,
      "hidden_size": 4096, "intermediate_size": 96, "num_hidden_layers": )"
                      << layers << R"(, "num_attention_heads": 32)" << more << "}";
  return read_config(ConfigReader(path));
}

void refused(const std::string& type, const std::string& more,
             const std::vector<std::string>& words) {
  try {
    read(type, more);
    ADD_FAILURE() << type << " takes" << more;
  } catch (const core::UserError& error) {
    EXPECT_EQ(error.code(), core::ExitCode::kConfigError);
    for (const std::string& word : words) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  }
}

TEST(ComposedFamilies, DefaultsAreThoseOfTransformers) {
  struct Row {
    const char* type;
    std::int64_t positions, head_dim, kv_heads;
    double eps, theta;
    bool tied;
    std::int64_t pad_id;
  };
  for (const Row& row : {Row{"gemma2", 8192, 256, 4, 1e-6, 1e4, true, 0},
                         Row{"gemma3_text", 131072, 256, 4, 1e-6, 1e6, true, 0},
                         Row{"olmo3", 2048, 128, 32, 1e-5, 5e5, false, 1},
                         Row{"smollm3", 32768, 128, 4, 1e-6, 2e6, true, 128004},
                         Row{"granite", 2048, 128, 32, 1e-6, 1e4, false, -1},
                         Row{"glm4", 131072, 128, 2, 1.5625e-7, 1e4, false, 151329},
                         Row{"ministral3", 262144, 128, 8, 1e-5, 1e6, false, 11},
                         Row{"seed_oss", 524288, 128, 8, 1e-6, 1e4, false, 1},
                         Row{"exaone4", 2048, 128, 32, 1e-5, 1e4, false, -1},
                         Row{"starcoder2", 4096, 128, 2, 1e-5, 1e4, true, -1},
                         Row{"phi", 2048, 128, 32, 1e-5, 1e4, false, -1},
                         Row{"stablelm", 4096, 128, 32, 1e-5, 1e4, false, -1},
                         Row{"cohere", 8192, 128, 32, 1e-5, 5e5, true, 0},
                         Row{"falcon", 2048, 128, 1, 1e-5, 1e4, true, -1}}) {
    SCOPED_TRACE(row.type);
    const DecoderConfig config = read(row.type);
    EXPECT_EQ(config.max_positions, row.positions);
    EXPECT_EQ(config.head_dim, row.head_dim);
    EXPECT_EQ(config.kv_heads, row.kv_heads);
    EXPECT_EQ(config.norm_eps, row.eps);
    EXPECT_EQ(config.rope.theta, row.theta);
    EXPECT_EQ(config.tied, row.tied);
    EXPECT_EQ(config.pad_id, row.pad_id);
    const bool star = config.family == "StarCoder2";
    EXPECT_EQ(config.initializer_range, star ? 0.018042 : 0.02);
    EXPECT_EQ(config.dropout.attention, config.family == "Seed-OSS" ? 0.1 : 0.0);
    EXPECT_EQ(config.dropout.residual, config.family == "Seed-OSS" ? 0.1 : 0.0);
  }
  EXPECT_EQ(read("phi").rope.rotary_dim, 64);
  EXPECT_EQ(read("glm4").rope.rotary_dim, 64);
  EXPECT_EQ(read("stablelm").rope.rotary_dim, 32);
  EXPECT_EQ(read("falcon").ffn, 4 * 4096);
  EXPECT_TRUE(read("glm4").block.qkv_bias);
  EXPECT_FALSE(read("glm4").block.out_bias);
}

TEST(ComposedFamilies, MultipliersAndCapsAreThoseOfTransformers) {
  const DecoderConfig two = read("gemma2");
  EXPECT_EQ(two.attention_softcap, 50.0);
  EXPECT_EQ(two.logits_softcap, 30.0);
  EXPECT_EQ(two.attention_scale, 0.0625);
  EXPECT_EQ(two.embedding_scale, 64.0);
  EXPECT_EQ(read("gemma2", R"(, "attn_logit_softcapping": null)").attention_softcap, 0.0);
  const DecoderConfig three = read("gemma3_text", R"(, "query_pre_attn_scalar": 64)");
  EXPECT_EQ(three.attention_softcap, 0.0);
  EXPECT_EQ(three.logits_softcap, 0.0);
  EXPECT_EQ(three.attention_scale, 0.125);
  EXPECT_EQ(read("cohere").logits_scale, 0.0625);
  EXPECT_EQ(read("granite").attention_scale, 1.0);
  const DecoderConfig granite = read("granite", R"(, "embedding_multiplier": 12.0,
      "logits_scaling": 8.0, "attention_multiplier": 0.25, "residual_multiplier": 0.22)");
  EXPECT_EQ(granite.embedding_scale, 12.0);
  EXPECT_EQ(granite.logits_scale, 0.125);
  EXPECT_EQ(granite.attention_scale, 0.25);
  EXPECT_EQ(granite.residual_scale, 0.22);
}

TEST(ComposedFamilies, EveryLayerHasItsWindowAndItsRope) {
  using Windows = std::vector<std::int64_t>;
  using Ropes = std::vector<LayerRope>;
  constexpr LayerRope kMain = LayerRope::kMain, kLocal = LayerRope::kLocal;
  constexpr LayerRope kNone = LayerRope::kNone;
  EXPECT_EQ(read("gemma2").windows, (Windows{4096, 0, 4096, 0, 4096, 0}));
  EXPECT_EQ(read("gemma3_text").windows, (Windows{4096, 4096, 4096, 4096, 4096, 0}));
  EXPECT_EQ(read("gemma3_text", R"(, "sliding_window_pattern": 3, "sliding_window": 9)").windows,
            (Windows{9, 9, 0, 9, 9, 0}));
  EXPECT_EQ(read("olmo3").windows, (Windows{4096, 4096, 4096, 0, 4096, 4096}));
  EXPECT_EQ(read("olmo3").layer_ropes, (Ropes{kLocal, kLocal, kLocal, kMain, kLocal, kLocal}));
  EXPECT_EQ(read("smollm3").layer_ropes, (Ropes{kMain, kMain, kMain, kNone, kMain, kMain}));
  EXPECT_EQ(read("smollm3").windows, Windows());
  EXPECT_EQ(read("smollm3", R"(, "no_rope_layer_interval": 3, "sliding_window": 8,
                "use_sliding_window": true)")
                .windows,
            (Windows{0, 0, 8, 0, 0, 8}));
  EXPECT_EQ(read("exaone4").layer_ropes, (Ropes{kMain, kMain, kMain, kNone, kMain, kMain}));
  EXPECT_EQ(read("exaone4", R"(, "sliding_window": null)").layer_ropes, Ropes());
  EXPECT_EQ(read("exaone4", R"(, "sliding_window_pattern": "LG", "layer_types":
      ["full_attention", "sliding_attention", "full_attention", "sliding_attention",
       "full_attention", "full_attention"])")
                .windows,
            (Windows{0, 4096, 0, 4096, 0, 0}));
  EXPECT_EQ(read("starcoder2").windows, Windows());
  EXPECT_EQ(read("ministral3", R"(, "sliding_window": 7)").windows, Windows(6, 7));
}

TEST(ComposedFamilies, RopeParametersMayStandPerLayerType) {
  for (const std::string spelled : {R"(, "rope_theta": 7.0, "rope_local_base_freq": 5.0,
           "rope_scaling": {"type": "linear", "factor": 8.0})",
                                    R"(, "rope_parameters": {
           "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 7.0},
           "sliding_attention": {"rope_type": "default", "rope_theta": 5.0}})"}) {
    const DecoderConfig config = read("gemma3_text", spelled);
    EXPECT_EQ(config.rope.type, RopeConfig::Type::kLinear);
    EXPECT_EQ(config.rope.factor, 8.0);
    EXPECT_EQ(config.rope.theta, 7.0);
    EXPECT_EQ(config.local_rope.type, RopeConfig::Type::kDefault);
    EXPECT_EQ(config.local_rope.theta, 5.0);
  }
  EXPECT_EQ(read("gemma3_text").local_rope.theta, 10000.0);
  const DecoderConfig yarn = read("olmo3", R"(, "rope_theta": 7.0, "rope_scaling": {
      "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 256})");
  EXPECT_EQ(yarn.rope.type, RopeConfig::Type::kYarn);
  EXPECT_EQ(yarn.rope.theta, 7.0);
  EXPECT_EQ(yarn.rope.original_max_position_embeddings, 256);
  EXPECT_EQ(yarn.local_rope.theta, 500000.0);  // rope_theta is that of full attention alone
  refused("olmo3", R"(, "rope_parameters": {"rope_theta": 7.0})",
          {"rope_parameters.rope_theta", "per layer type"});
  refused("olmo3", R"(, "rope_scaling": {"factor": 2.0}, "rope_parameters": {
      "full_attention": {"rope_theta": 7.0}})",
          {"rope_scaling", "beside rope_parameters"});
  refused("granite", R"(, "rope_parameters": {"full_attention": {"rope_theta": 7.0}})",
          {"rope_parameters.full_attention", "one set"});
}

TEST(ComposedFamilies, QueriesOfMinistralGrowWithTheirPosition) {
  const RopeConfig absent = read("ministral3").rope;
  EXPECT_EQ(absent.type, RopeConfig::Type::kYarn);
  EXPECT_EQ(absent.query_beta, 0.1);
  EXPECT_EQ(absent.original_max_position_embeddings, 16384);
  EXPECT_EQ(absent.attention_factor, 1.0);
  const RopeConfig given = read("ministral3", R"(, "rope_parameters": {"rope_type": "default",
      "llama_4_scaling_beta": 0.25, "original_max_position_embeddings": 8})")
                               .rope;
  EXPECT_EQ(given.query_beta, 0.25);
  EXPECT_EQ(given.original_max_position_embeddings, 8);
  refused("ministral3", R"(, "rope_parameters": {"rope_type": "default"})",
          {"llama_4_scaling_beta", "required"});
}

TEST(ComposedFamilies, FalconHasThreeKindsOfHeads) {
  const DecoderConfig one = read("falcon", R"(, "num_kv_heads": 32)");
  EXPECT_EQ(one.kv_heads, 1);
  EXPECT_EQ(one.block.qkv, QkvMatrix::kStacked);
  EXPECT_EQ(one.block.residual, Residual::kParallelOneNorm);
  const DecoderConfig groups =
      read("falcon", R"(, "new_decoder_architecture": true, "num_kv_heads": 8)");
  EXPECT_EQ(groups.kv_heads, 8);
  EXPECT_EQ(groups.block.qkv, QkvMatrix::kPerHead);
  EXPECT_EQ(groups.block.residual, Residual::kParallel);
  EXPECT_EQ(groups.names.norm2, "ln_mlp");
  const DecoderConfig all = read("falcon", R"(, "multi_query": false, "parallel_attn": false)");
  EXPECT_EQ(all.kv_heads, 32);
  EXPECT_EQ(all.block.residual, Residual::kSequential);
  EXPECT_EQ(read("falcon", R"(, "n_embed": 64)").hidden, 64);
  refused("falcon", R"(, "alibi": true)", {"alibi", "value true"});
  refused("falcon", R"(, "hidden_dropout": 0.1)", {"hidden_dropout", "0.1"});
  refused("falcon", R"(, "new_decoder_architecture": true, "num_kv_heads": 5)", {"num_kv_heads"});
  refused("falcon", R"(, "multi_query": false, "num_kv_heads": 8)", {"num_kv_heads"});
}

// TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING of peft.
TEST(ComposedFamilies, AdaptersHaveTheDefaultsOfPeft) {
  using Targets = std::vector<std::string>;
  for (const char* type : {"gemma2", "gemma3_text", "stablelm"}) {
    EXPECT_EQ(read(type).lora_targets, (Targets{"q_proj", "v_proj"})) << type;
  }
  EXPECT_EQ(read("phi").lora_targets, (Targets{"q_proj", "v_proj", "fc1", "fc2"}));
  EXPECT_EQ(read("falcon").lora_targets, (Targets{"query_key_value"}));
  for (const char* type : {"olmo3", "smollm3", "granite", "glm4", "ministral3", "seed_oss",
                           "exaone4", "starcoder2", "cohere"}) {
    EXPECT_EQ(read(type).lora_targets, Targets()) << type;
  }
}

TEST(ComposedFamilies, ARunKnowsWhatDefinesItsFunction) {
  const auto identity = [](const std::string& type, const std::string& more) {
    return identity_of(read(type, more));
  };
  const std::string plain = identity("granite", "");
  for (const char* key :
       {"embedding_multiplier", "logits_scaling", "attention_multiplier", "residual_multiplier"}) {
    EXPECT_NE(identity("granite", core::concat(", \"", key, "\": 0.5")), plain) << key;
  }
  EXPECT_NE(identity("smollm3", R"(, "no_rope_layer_interval": 2)"), identity("smollm3", ""));
  EXPECT_NE(identity("gemma3_text", R"(, "rope_local_base_freq": 5.0)"),
            identity("gemma3_text", ""));
  const std::string beta = R"(, "rope_parameters": {"rope_type": "default",
      "original_max_position_embeddings": 8, "llama_4_scaling_beta": )";
  EXPECT_NE(identity("ministral3", beta + "0.5}"), identity("ministral3", beta + "0.25}"));
}

TEST(ComposedFamilies, WhatIsNotSupportedIsRefusedByName) {
  refused("cohere", R"(, "use_qk_norm": true)", {"use_qk_norm", "value true"});
  refused("stablelm", R"(, "qk_layernorm": true)", {"qk_layernorm", "value true"});
  refused("stablelm", R"(, "hidden_dropout": 0.1)", {"hidden_dropout", "0.1"});
  refused("stablelm", R"(, "head_dim": 64)", {"head_dim", "64"});
  refused("gemma2", R"(, "use_bidirectional_attention": true)", {"use_bidirectional_attention"});
  refused("smollm3", R"(, "no_rope_layers": [1, 0])", {"no_rope_layers", "one entry per layer"});
  refused("mixtral", "", {"supported are \"llama\"", "experts"});
  refused("mamba2", "", {"state space"});
  refused("olmo", "", {"choose such a model", "olmo"});
}

}  // namespace
}  // namespace fm::model
