// What families read from config.json; defaults are those of transformers 5.23
// (AutoConfig.for_model(model_type)).
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "core/check.h"
#include "model/families/families.h"
#include "model/families/known_keys.h"
#include "tests/model/family_jsons.h"

namespace fm::model {
namespace {

std::string scratch_path() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  return testing::TempDir() + "/fm_family_config_" + test->name() + ".json";
}

DecoderConfig read(const std::string& text) {
  std::ofstream(scratch_path()) << text;
  return read_config(ConfigReader(scratch_path()));
}

// A file with little more than sizes.
DecoderConfig usual(const std::string& type, const std::string& more = "") {
  return read(R"({"model_type": ")" + type + R"(", "vocab_size": 40000, "hidden_size": 4096,
    "intermediate_size": 96, "num_hidden_layers": 30, "num_attention_heads": 32)" +
              more + "}");
}

DecoderConfig gpt(const std::string& type, const std::string& more = "") {
  return read(R"({"model_type": ")" + type + R"(", "vocab_size": 777, "n_embd": 512, "n_layer": 2,
    "n_head": 4)" +
              more + "}");
}

void refused(const std::function<void()>& reads, const std::vector<std::string>& words) {
  try {
    reads();
    ADD_FAILURE() << "accepted; expected a word about " << words.front();
  } catch (const core::UserError& error) {
    EXPECT_EQ(error.code(), core::ExitCode::kConfigError);
    for (const std::string& word : words) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  }
}

TEST(FamilyConfig, DefaultsAreThoseOfTransformers) {
  struct Row {
    const char* type;
    std::int64_t positions, head_dim, kv_heads;
    double eps;
    bool tied;
    std::int64_t pad_id;
  };
  for (const Row& row :
       {Row{"mistral", 131072, 128, 8, 1e-6, false, -1},
        Row{"qwen2", 32768, 128, 32, 1e-6, false, -1},
        Row{"qwen3", 32768, 128, 32, 1e-6, false, -1},
        Row{"phi3", 4096, 128, 32, 1e-5, false, 32000}, Row{"gemma", 8192, 256, 16, 1e-6, true, 0},
        Row{"olmo2", 2048, 128, 32, 1e-5, false, 1},
        Row{"gpt_neox", 2048, 128, 32, 1e-5, false, -1}}) {
    SCOPED_TRACE(row.type);
    const DecoderConfig config = usual(row.type);
    EXPECT_EQ(config.max_positions, row.positions);
    EXPECT_EQ(config.head_dim, row.head_dim);
    EXPECT_EQ(config.kv_heads, row.kv_heads);
    EXPECT_EQ(config.norm_eps, row.eps);
    EXPECT_EQ(config.tied, row.tied);
    EXPECT_EQ(config.pad_id, row.pad_id);
    EXPECT_EQ(config.initializer_range, 0.02);
    EXPECT_EQ(config.rope.theta, 10000.0);
    const bool quarter = config.family == "GPT-NeoX";
    EXPECT_EQ(config.rope.rotary_dim, quarter ? 32 : row.head_dim);
  }
  EXPECT_EQ(usual("phi3", R"(, "pad_token_id": null)").pad_id, -1);
}

TEST(FamilyConfig, DefaultsOfGptAreThoseOfTransformers) {
  const std::string dry = R"(, "attn_pdrop": 0, "resid_pdrop": 0, "embd_pdrop": 0)";
  const DecoderConfig gpt2 = gpt("gpt2", dry);
  EXPECT_EQ(gpt2.max_positions, 1024);
  EXPECT_EQ(gpt2.ffn, 2048);
  EXPECT_TRUE(gpt2.tied);
  EXPECT_EQ(gpt2.block.activation, kernels::Activation::kGeluTanh);
  EXPECT_EQ(gpt2.residual_initializer_range, 0.01);  // 0.02 / sqrt(2 x 2 layers)
  const DecoderConfig gptj = gpt("gptj");
  EXPECT_EQ(gptj.max_positions, 2048);
  EXPECT_EQ(gptj.ffn, 2048);
  EXPECT_FALSE(gptj.tied);
  EXPECT_EQ(gptj.rope.rotary_dim, 64);
  EXPECT_TRUE(gptj.head_bias);
  EXPECT_EQ(gpt("gptj", R"(, "n_inner": 96, "num_key_value_heads": 3)").ffn, 96);
}

TEST(FamilyConfig, WindowsAreOfTheLayersThatTheFileNames) {
  using Windows = std::vector<std::int64_t>;
  const std::string ten = R"(, "sliding_window": 10)";
  EXPECT_EQ(usual("mistral").windows, Windows(30, 4096));
  EXPECT_EQ(usual("mistral", R"(, "sliding_window": null)").windows, Windows());
  EXPECT_EQ(usual("mistral", ten).windows, Windows(30, 10));
  EXPECT_EQ(usual("phi3").windows, Windows());
  EXPECT_EQ(usual("phi3", ten).windows, Windows(30, 10));
  // Which transformers' class does not know.
  EXPECT_EQ(usual("phi3", ten + R"(, "layer_types": ["full_attention"])").windows, Windows(30, 10));
  EXPECT_EQ(usual("qwen2", ten).windows, Windows());
  const std::string use = R"(, "use_sliding_window": true)";
  Windows last_two(30, 0);
  last_two[28] = last_two[29] = 10;
  EXPECT_EQ(usual("qwen2", ten + use).windows, last_two);
  Windows from_twenty(20, 0);
  from_twenty.resize(30, 10);
  EXPECT_EQ(usual("qwen3", ten + use + R"(, "max_window_layers": 20)").windows, from_twenty);
  const std::string two = R"({"model_type": "qwen3", "vocab_size": 40, "hidden_size": 64,
    "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "layer_types": )";
  EXPECT_EQ(read(two + R"(["sliding_attention", "full_attention"])" + ten + use + "}").windows,
            (Windows{10, 0}));
  const std::string other = std::string(two).replace(two.find("qwen3"), 5, "mistral");
  EXPECT_EQ(read(other + R"(["sliding_attention", "full_attention"])" + ten + "}").windows,
            (Windows{10, 0}));
  refused([&] { read(two + R"(["full_attention"]})"); }, {"layer_types", "one entry per layer"});
  refused([&] { read(two + R"(["full_attention", "chunked"]})"); }, {"layer_types", "chunked"});
  refused([&] { read(two + R"(["full_attention", "sliding_attention"]})"); },
          {"layer_types", "sliding_window"});
}

// The keys of the text beside those of the images, as transformers 4 wrote them, or in text_config.
TEST(FamilyConfig, TextOfAModelOfImagesIsItsFamily) {
  const std::string sizes = R"("vocab_size": 400, "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2)";
  const std::string rope = R"(, "rope_theta": 1e6,
    "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]})";
  const std::string vision = R"(, "vision_config": {"depth": 1, "hidden_size": 16})";
  const DecoderConfig flat = read(R"({"model_type": "qwen2_5_vl", "tie_word_embeddings": true, )" +
                                  sizes + rope + vision + "}");
  const DecoderConfig nested =
      read(R"({"model_type": "qwen2_5_vl", "tie_word_embeddings": true, "text_config": {)" + sizes +
           rope + R"(, "tie_word_embeddings": false})" + vision + "}");
  for (const DecoderConfig* config : {&flat, &nested}) {
    EXPECT_EQ(config->architecture, "Qwen2_5_VLForConditionalGeneration");
    EXPECT_EQ(config->names.base, "model.language_model.");
    EXPECT_EQ(config->hidden, 64);
    EXPECT_EQ(config->rope.theta, 1e6);
    EXPECT_EQ(config->rope.type, RopeConfig::Type::kDefault);
    EXPECT_EQ(config->norm_eps, 1e-5);  // Qwen 2 has 1e-6
    EXPECT_TRUE(config->block.qkv_bias);
    EXPECT_TRUE(config->tied);
  }
  const DecoderConfig qwen3 =
      read(R"({"model_type": "qwen3_vl", "text_config": {)" + sizes + "}" + vision + "}");
  EXPECT_EQ(qwen3.max_positions, 128000);  // Qwen 3 has 32768
  EXPECT_EQ(qwen3.head_dim, 128);
  EXPECT_FALSE(qwen3.tied);
  // The text_config of the published gemma-3-4b, which leaves out what is the default.
  const DecoderConfig gemma = read(R"({"model_type": "gemma3", "text_config": {
    "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
    "num_hidden_layers": 34, "sliding_window": 1024,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}})");
  EXPECT_EQ(gemma.vocab, 262208);
  EXPECT_EQ(gemma.heads, 8);
  EXPECT_EQ(gemma.kv_heads, 4);
  EXPECT_EQ(gemma.head_dim, 256);
  EXPECT_TRUE(gemma.tied);
  EXPECT_EQ(gemma.rope.factor, 8.0);
  refused([&] { read(R"({"model_type": "mistral3", "text_config": {"model_type": "odd"}})"); },
          {"text_config.model_type", "odd"});
}

TEST(FamilyConfig, LongropeHasTheFactorOfTransformers) {
  const std::string factors = R"("short_factor": [1, 1.1, 1.2, 1.3, 1.4, 1.5],
    "long_factor": [1, 2, 3, 4, 5, 6])";
  const std::string tiny = R"({"model_type": "phi3", "vocab_size": 40000, "hidden_size": 96,
    "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 512, "original_max_position_embeddings": 128,
    "rope_scaling": {"partial_rotary_factor": 0.5, )";
  for (const char* type : {"longrope", "su", "yarn"}) {
    const RopeConfig rope = read(tiny + R"("type": ")" + type + "\", " + factors + "}}").rope;
    EXPECT_EQ(rope.type, RopeConfig::Type::kLongrope) << type;
    EXPECT_EQ(rope.rotary_dim, 12);
    // sqrt(1 + log(512 / 128) / log(128)), as transformers computes it.
    EXPECT_NEAR(rope.attention_factor, 1.1338934190276817, 1e-15);
    EXPECT_EQ(rope.long_factor.back(), 6.0);
  }
  refused([&] { read(tiny + R"("type": "longrope", "long_factor": [1], "short_factor": [1]}})"); },
          {"short_factor", "6 numbers"});
  refused([&] { read(tiny + R"("type": "longrope"}})"); }, {"short_factor", "required"});
}

// In transformers 5.23 the first losses with and without the key are the same.
TEST(FamilyConfig, WholeHeadsTurnWhereTransformersPassesOverAShare) {
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3", "gemma", "olmo2"}) {
    for (const char* key : {R"(, "partial_rotary_factor": 0.5)",
                            R"(, "rope_parameters": {"partial_rotary_factor": 0.5})"}) {
      const DecoderConfig config = usual(family, key);
      EXPECT_EQ(config.rope.rotary_dim, config.head_dim) << family << key;
    }
  }
  const auto refuses = [](const char* family, const char* key, const char* value) {
    refused([&] { usual(family, core::concat(", \"", key, "\": ", value)); }, {key, value});
  };
  refuses("phi3", "partial_rotary_factor", "1.5");
  refuses("phi3", "partial_rotary_factor", "0.002");
  refuses("gpt_neox", "rotary_pct", "0.002");
}

// Expected: _compute_yarn_parameters of transformers 5.23.
TEST(FamilyConfig, YarnHasTheFactorOfTransformers) {
  const auto rope = [](const std::string& more) {
    return usual("qwen2", R"(, "rope_parameters": {"rope_type": "yarn", "factor": )" + more + "}")
        .rope;
  };
  EXPECT_NEAR(rope("4.0").attention_factor, 1.138629436111989, 1e-15);
  EXPECT_NEAR(rope(R"(8.0, "mscale": 1.0, "mscale_all_dim": 0.5)").attention_factor,
              1.094179988101349, 1e-15);
  EXPECT_EQ(rope(R"(8.0, "attention_factor": 1.5)").attention_factor, 1.5);
  EXPECT_EQ(rope("4.0").original_max_position_embeddings, 32768);
}

// The places of nn.Dropout in transformers 5.23.
TEST(FamilyConfig, DropoutIsWhereTransformersHasIt) {
  const auto of = [](const DecoderConfig& config) {
    return std::vector<double>{config.dropout.embedding, config.dropout.attention,
                               config.dropout.residual};
  };
  using Numbers = std::vector<double>;
  const std::string all = R"(, "attention_dropout": 0.1, "hidden_dropout": 0.2, "attn_pdrop": 0.3,
      "embd_pdrop": 0.4, "resid_pdrop": 0.5)";
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3", "gemma", "olmo2"}) {
    EXPECT_EQ(of(usual(type, all)), (Numbers{0.0, 0.1, 0.0})) << type;
    EXPECT_EQ(of(usual(type)), (Numbers{0.0, 0.0, 0.0})) << type;
  }
  EXPECT_EQ(of(usual("phi3", all + R"(, "pad_token_id": null)")), (Numbers{0.0, 0.1, 0.5}));
  EXPECT_EQ(of(usual("gpt_neox", all)), (Numbers{0.2, 0.1, 0.2}));
  EXPECT_EQ(of(gpt("gptj", all)), (Numbers{0.4, 0.3, 0.5}));
  EXPECT_EQ(of(gpt("gptj")), (Numbers{0.0, 0.0, 0.0}));
  EXPECT_EQ(of(gpt("gpt2", all)), (Numbers{0.4, 0.3, 0.5}));
  EXPECT_EQ(of(gpt("gpt2")), (Numbers{0.1, 0.1, 0.1}));
}

TEST(FamilyConfig, WhatIsNotSupportedIsRefusedByName) {
  refused([] { gpt("gpt2", R"(, "attn_pdrop": 1.0)"); }, {"attn_pdrop", "below 1", "1"});
  refused([] { gpt("gpt2", R"(, "scale_attn_weights": false)"); }, {"scale_attn_weights"});
  refused([] { gpt("gpt2", R"(, "add_cross_attention": true)"); }, {"add_cross_attention"});
  refused([] { gpt("gptj", R"(, "rotary_dim": 130)"); }, {"rotary_dim", "130"});
  refused([] { usual("gpt_neox", R"(, "hidden_dropout": -0.2)"); }, {"hidden_dropout", "-0.2"});
  refused([] { usual("gpt_neox", R"(, "rotary_pct": 0.01)"); }, {"rotary_pct", "even"});
  refused([] { usual("gemma", R"(, "use_bidirectional_attention": true)"); },
          {"use_bidirectional_attention"});
  refused([] { usual("olmo2", R"(, "hidden_act": "tanh")"); }, {"hidden_act", "tanh"});
}

// Whatever a file holds, it is read or refused with its name; nothing else happens.
TEST(FamilyConfig, ChangedFilesAreReadOrRefused) {
  const std::string pieces[] = {"null", "-1",         "0",          "1e999", "\"x\"",
                                "[]",   "{}",         "[1, \"a\"]", "true",  "1.5",
                                "{\"",  "2147483648", ",",          ":",     "\"rope_type\""};
  std::mt19937 random(20261125);
  int accepted = 0;
  int refusals = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::vector<FamilyJson> families = family_jsons();
    std::string text = families[random() % families.size()].text;
    for (auto changes = 1 + random() % 2; changes > 0; --changes) {
      const std::size_t at = random() % text.size();
      const std::size_t value = text.find(": ", at);
      if (random() % 2 == 0 && value != std::string::npos) {  // another value of a key
        const std::size_t end = text.find_first_of(",}", value);
        text.replace(value + 2, end - value - 2, pieces[random() % std::size(pieces)]);
      } else {
        text.erase(at, 1 + random() % 4);
      }
    }
    try {
      const DecoderConfig config = read(text);
      EXPECT_EQ(config.heads % config.kv_heads, 0) << text;
      EXPECT_GE(config.head_dim, 2) << text;
      ++accepted;
    } catch (const core::UserError& error) {
      EXPECT_NE(std::string(error.what()).find(scratch_path()), std::string::npos) << text;
      ++refusals;
    }
  }
  EXPECT_GT(accepted, 200);
  EXPECT_GT(refusals, 1000);
}

// Granite's multipliers and Llama 4's layers without positions under the name of Llama: such a
// model would be trained without them.
TEST(FamilyConfig, KeysThatNobodyKnowsAreNamed) {
  using Names = std::vector<std::string>;
  const auto unknown = [](const std::string& type, const std::string& keys) {
    const std::string text = R"({"model_type": ")" + type +
                             R"(", "vocab_size": 40, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2)" +
                             keys + "}";
    std::ofstream(scratch_path()) << text;
    const ConfigReader file(scratch_path());
    read_config(file);
    return unknown_keys(file);
  };
  EXPECT_EQ(unknown("llama", R"(, "embedding_multiplier": 12.0, "logits_scaling": 8.0,
                                 "attention_multiplier": 0.0156, "residual_multiplier": 0.22)"),
            (Names{"attention_multiplier (0.0156)", "embedding_multiplier (12.0)",
                   "logits_scaling (8.0)", "residual_multiplier (0.22)"}));
  EXPECT_EQ(unknown("llama", R"(, "no_rope_layers": [1, 0], "sliding_window": 4096,
                                 "final_logit_softcapping": 30.0, "odd": {"a": 1}, "none": null)"),
            (Names{"final_logit_softcapping (30.0)", "no_rope_layers (an array)", "odd (an object)",
                   "sliding_window (4096)"}));
  EXPECT_EQ(unknown("phi3", R"(, "layer_types": ["full_attention"], "sliding_window": 8,
                                "pad_token_id": null)"),
            Names{"layer_types (an array)"});
  EXPECT_EQ(unknown("olmo2", R"(, "odd": ")" + std::string(100, 'x') + "\""),
            Names{"odd (a long text)"});
  // What every file has, what generation has, and what is read though a class does not have it.
  EXPECT_EQ(
      unknown("llama", R"(, "architectures": ["LlamaForCausalLM"], "transformers_version": "4.57",
      "torch_dtype": "bfloat16", "dtype": "bfloat16", "_name_or_path": "a", "auto_map": {},
      "temperature": 0.6, "bos_token_id": 1, "pretraining_tp": 1, "rope_theta": 1e6,
      "use_cache": true, "rope_scaling": null,
      "task_specific_params": {}, "gradient_checkpointing": false)"),
      Names{});
  EXPECT_EQ(unknown("qwen2", R"(, "num_key_value_heads": 1, "head_dim": 32)"), Names{});
  EXPECT_EQ(unknown("mistral", R"(, "num_key_value_heads": 1, "sliding_window": 8)"), Names{});
  EXPECT_EQ(unknown("gpt_neox", R"(, "rope_theta": 500000, "rotary_pct": 0.5)"),
            Names{"rope_theta (500000)"});
  refused([&] { unknown("llama", R"(, "per_layer_config": {"0": {"head_dim": 16}})"); },
          {"per_layer_config", "not supported"});
}

}  // namespace
}  // namespace fm::model
