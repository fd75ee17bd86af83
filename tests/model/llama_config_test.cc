#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "model/families/llama.h"

namespace fm::model {
namespace {

const std::string kSizes =
    R"("model_type": "llama", "vocab_size": 777, "hidden_size": 96, "intermediate_size": 250,
       "num_hidden_layers": 5, "num_attention_heads": 6)";

class ConfigJson : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ =
        std::filesystem::path(testing::TempDir()) / (std::string("fm_config_") + test->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path path() const { return folder_ / "config.json"; }
  DecoderConfig read(const std::string& text) {
    std::ofstream(path()) << text;
    return read_llama_config(ConfigReader(path()));
  }
  DecoderConfig with(const std::string& more) { return read("{" + kSizes + ", " + more + "}"); }

  // The message must hold all words; code as given.
  void refused(const std::string& text, core::ExitCode code, std::vector<std::string> words) {
    try {
      read(text);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const core::UserError& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      words.push_back("config.json");
      for (const std::string& word : words) {
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
            << "'" << word << "' is not in: " << error.what();
      }
    }
  }
  void refused_key(const std::string& more, std::vector<std::string> words) {
    refused("{" + kSizes + ", " + more + "}", core::ExitCode::kConfigError, std::move(words));
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(ConfigJson, DefaultsAreThoseOfTransformers) {
  const DecoderConfig config = read("{" + kSizes + "}");
  EXPECT_EQ(config.vocab, 777);
  EXPECT_EQ(config.hidden, 96);
  EXPECT_EQ(config.ffn, 250);
  EXPECT_EQ(config.layers, 5);
  EXPECT_EQ(config.heads, 6);
  EXPECT_EQ(config.kv_heads, 6);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.max_positions, 2048);
  EXPECT_EQ(config.norm_eps, 1e-6);
  EXPECT_EQ(config.initializer_range, 0.02);
  EXPECT_FALSE(config.tied);
  EXPECT_EQ(config.rope.type, RopeConfig::Type::kDefault);
  EXPECT_EQ(config.rope.theta, 10000.0);
}

TEST_F(ConfigJson, ReadsEveryKeyItHonours) {
  const DecoderConfig config = with(
      R"("num_key_value_heads": 2, "head_dim": 24, "max_position_embeddings": 99,
         "rms_norm_eps": 1e-05, "initializer_range": 0.5, "tie_word_embeddings": true,
         "hidden_act": "silu", "attention_bias": false, "mlp_bias": false,
         "attention_dropout": 0.0, "rope_theta": 500000, "torch_dtype": "bfloat16",
         "pretraining_tp": 1, "eos_token_id": [1, 2])");
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_dim, 24);
  EXPECT_EQ(config.max_positions, 99);
  EXPECT_EQ(config.norm_eps, 1e-5);
  EXPECT_EQ(config.initializer_range, 0.5);
  EXPECT_TRUE(config.tied);
  EXPECT_EQ(config.rope.theta, 500000.0);
}

TEST_F(ConfigJson, NullMeansAbsent) {
  const DecoderConfig config =
      with(R"("num_key_value_heads": null, "head_dim": null, "rope_scaling": null)");
  EXPECT_EQ(config.kv_heads, 6);
  EXPECT_EQ(config.head_dim, 16);
}

TEST_F(ConfigJson, ThePadIsAnIdOrCountsFromTheEnd) {
  EXPECT_EQ(with(R"("pad_token_id": null)").pad_id, -1);
  EXPECT_EQ(with(R"("pad_token_id": 0)").pad_id, 0);
  EXPECT_EQ(with(R"("pad_token_id": -1)").pad_id, 776);
  refused_key(R"("pad_token_id": 777)", {"pad_token_id", "vocab_size=777"});
  refused_key(R"("pad_token_id": 0.5)", {"pad_token_id", "whole number", "0.5"});
}

TEST_F(ConfigJson, FourSpellingsOfRopeMeanTheSame) {
  const std::string values =
      R"("factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 8192)";
  const std::string top = R"("rope_theta": 500000.0, )";
  for (const std::string& spelling :
       {top + R"("rope_scaling": {"type": "llama3", )" + values + "}",
        top + R"("rope_scaling": {"rope_type": "llama3", )" + values + "}",
        R"("rope_parameters": {"rope_theta": 500000.0, "rope_type": "llama3", )" + values + "}",
        top + R"("rope_parameters": {"type": "llama3", )" + values + "}"}) {
    const RopeConfig rope = with(spelling).rope;
    EXPECT_EQ(rope.type, RopeConfig::Type::kLlama3) << spelling;
    EXPECT_EQ(rope.theta, 500000.0) << spelling;
    EXPECT_EQ(rope.factor, 8.0);
    EXPECT_EQ(rope.low_freq_factor, 1.0);
    EXPECT_EQ(rope.high_freq_factor, 4.0);
    EXPECT_EQ(rope.original_max_position_embeddings, 8192);
  }
  EXPECT_EQ(with(R"("rope_scaling": {"type": "linear", "factor": 2.0})").rope.factor, 2.0);
  EXPECT_EQ(with(R"("rope_parameters": {"rope_theta": 7.0, "rope_type": "default"})").rope.theta,
            7.0);
}

// Expected: DecoderConfig.rope_parameters of transformers 5.23 for the same file.
TEST_F(ConfigJson, OneOfTwoRopeObjectsRulesAlone) {
  const std::string parameters =
      R"("rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0})";
  const std::string scaling = R"("rope_scaling": {"type": "linear", "factor": 2.0)";
  RopeConfig rope = with(scaling + "}, " + parameters).rope;
  EXPECT_EQ(rope.factor, 2.0);
  EXPECT_EQ(rope.theta, 10000.0);
  EXPECT_EQ(with(R"("rope_theta": 7.0, )" + scaling + "}, " + parameters).rope.theta, 7.0);
  EXPECT_EQ(with(scaling + R"(, "rope_theta": 3.0}, )" + parameters).rope.theta, 3.0);
  rope = with(R"("rope_scaling": {"rope_type": "default"}, )" + parameters).rope;
  EXPECT_EQ(rope.type, RopeConfig::Type::kDefault);
  EXPECT_EQ(rope.theta, 10000.0);
  for (const char* nothing : {"{}", "null"}) {
    rope = with(std::string(R"("rope_scaling": )") + nothing + ", " + parameters).rope;
    EXPECT_EQ(rope.factor, 4.0) << nothing;
    EXPECT_EQ(rope.theta, 500.0) << nothing;
  }
}

TEST_F(ConfigJson, FactorsOfLlama3AreReadNotAssumed) {
  const RopeConfig rope =
      with(R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 2.0,
              "high_freq_factor": 5.0, "original_max_position_embeddings": 4096})")
          .rope;
  EXPECT_EQ(rope.low_freq_factor, 2.0);
  EXPECT_EQ(rope.high_freq_factor, 5.0);
  EXPECT_EQ(rope.original_max_position_embeddings, 4096);
}

// Expected: DecoderConfig.rope_parameters of transformers 5.23 for the same file.
TEST_F(ConfigJson, TheLengthThatLlama3RopeWasTrainedWith) {
  const std::string rest = R"("rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                              "high_freq_factor": 4.0)";
  const std::string without = R"("max_position_embeddings": 512, "rope_scaling": {)" + rest + "}";
  const std::string with_own = R"("rope_scaling": {"original_max_position_embeddings": 64, )";
  const std::string outer = R"("original_max_position_embeddings": 128, )";
  EXPECT_EQ(with(without).rope.original_max_position_embeddings, 512);
  EXPECT_EQ(with(outer + without).rope.original_max_position_embeddings, 128);
  EXPECT_EQ(with(outer + with_own + rest + "}").rope.original_max_position_embeddings, 128);
  EXPECT_EQ(with(with_own + rest + "}").rope.original_max_position_embeddings, 64);
  // Other kinds have none: it must not tell a checkpoint's model from the same one.
  const std::string linear = R"("rope_scaling": {"type": "linear", "factor": 2.0})";
  EXPECT_EQ(with(outer + linear).rope.original_max_position_embeddings, 8192);
}

TEST_F(ConfigJson, AnExportNamesTheCausalModel) {
  const std::string wanted = R"({"architectures": ["LlamaForCausalLM"], "x":1})";
  const auto exported = [this](const std::string& text) {
    std::ofstream(path()) << text;
    return ConfigReader(path()).text_with_architecture("LlamaForCausalLM");
  };
  EXPECT_EQ(exported(wanted), wanted);
  EXPECT_EQ(exported(R"({"pad_token_id":  null})"), R"({"pad_token_id":  null})");
  EXPECT_EQ(nlohmann::json::parse(exported(R"({"architectures": ["LlamaModel"], "x": 1})")),
            nlohmann::json::parse(wanted));
}

TEST_F(ConfigJson, RopeTypeRulesOverType) {
  EXPECT_EQ(with(R"("rope_scaling": {"type": "dynamic", "rope_type": "linear", "factor": 2.0})")
                .rope.type,
            RopeConfig::Type::kLinear);
  EXPECT_EQ(with(R"("rope_scaling": {"type": "linear", "rope_type": "default", "factor": 2.0})")
                .rope.type,
            RopeConfig::Type::kDefault);
}

TEST_F(ConfigJson, OtherBlocksAreRefusedByName) {
  refused_key(R"("hidden_act": "mish")", {"hidden_act", "mish", "silu"});
  refused_key(R"("attention_dropout": 1.1)", {"attention_dropout"});
  refused_key(R"("quantization_config": {"bits": 4})", {"quantization_config"});
  // The last of two equal keys counts.
  refused_key(R"("num_hidden_layers": 10001)", {"num_hidden_layers", "at most 10000", "10001"});
  refused_key(R"("hidden_size": 1200000000)", {"hidden_size", "parameters", "correct the sizes"});
}

TEST_F(ConfigJson, OtherRopesAreRefusedByName) {
  for (const char* type : {"mrope", "proportional"}) {
    const std::string value = std::string("\"") + type + "\"";
    refused_key(R"("rope_scaling": {"factor": 2.0, "type": )" + value + "}",
                {"rope_scaling.type", type, "llama3"});
    refused_key(R"("rope_parameters": {"rope_type": )" + value + "}",
                {"rope_parameters.rope_type", type});
  }
  refused_key(R"("rope_scaling": {"type": "linear"})", {"rope_scaling.factor", "required"});
  refused_key(R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0})", {"low_freq_factor"});
  refused_key(R"("rope_parameters": {"full_attention": {"rope_type": "default"}})",
              {"rope_parameters.full_attention"});
  refused_key(R"("rope_scaling": 4)", {"rope_scaling", "object"});
  refused_key(R"("rope_scaling": {"type": "linear", "factor": 2.0}, "partial_rotary_factor": 0.5)",
              {"partial_rotary_factor", "turn whole", "0.5"});
  refused_key(R"("rope_parameters": {"rope_type": "linear", "factor": 2.0,
                  "partial_rotary_factor": 0.5})",
              {"rope_parameters.partial_rotary_factor", "turn whole"});
  for (const char* high : {"2.0", "1.5"}) {
    refused_key(R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 2.0,
                    "original_max_position_embeddings": 64, "high_freq_factor": )" +
                    std::string(high) + "}",
                {"rope_scaling.high_freq_factor", "low_freq_factor"});
  }
}

TEST_F(ConfigJson, SizesThatDoNotFitAreRefusedWithTheirValues) {
  refused_key(R"("num_key_value_heads": 4)", {"num_key_value_heads", "4", "6"});
  refused_key(R"("num_attention_heads": 7)", {"num_attention_heads", "7", "96", "transformers"});
  refused_key(R"("num_attention_heads": 7, "head_dim": 16)",
              {"num_attention_heads", "7", "96", "transformers"});
  refused_key(R"("head_dim": 15)", {"head_dim", "15"});
  refused_key(R"("hidden_size": 0)", {"hidden_size", "0"});
  refused_key(R"("vocab_size": -5)", {"vocab_size", "-5"});
  refused_key(R"("num_hidden_layers": 2.5)", {"num_hidden_layers", "2.5"});
  refused_key(R"("intermediate_size": "big")", {"intermediate_size", "big"});
  refused_key(R"("rms_norm_eps": 0)", {"rms_norm_eps"});
  refused_key(R"("tie_word_embeddings": "yes")", {"tie_word_embeddings", "yes"});
}

TEST_F(ConfigJson, BracketsInBracketsNeedNoStack) {
  refused_key(R"("head_dim": [[1]])", {"head_dim", "an array"});
  for (const char* key : {"head_dim", "dtype"}) {
    constexpr int kDepth = 100'000;
    refused("{" + kSizes + ", \"" + key + "\": " + std::string(kDepth, '[') +
                std::string(kDepth, ']') + "}",
            core::ExitCode::kDataError, {"levels of brackets"});
  }
}

TEST_F(ConfigJson, SizesEndWhereTokenIdsEnd) {
  EXPECT_EQ(with(R"("vocab_size": 2147483647)").vocab, 2147483647);
  refused_key(R"("vocab_size": 2147483648)", {"vocab_size", "2147483648"});
  refused_key(R"("vocab_size": 18446744073709551615)", {"vocab_size", "18446744073709551615"});
}

TEST_F(ConfigJson, MissingKeysAreNamed) {
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads"}) {
    std::string text = "{" + kSizes + "}";
    text.replace(text.find(key), 2, "zz");
    refused(text, core::ExitCode::kConfigError, {key, "required"});
  }
}

TEST_F(ConfigJson, MissingOrBrokenFilesAreDataErrors) {
  refused("{\"model_type\": ", core::ExitCode::kDataError, {"JSON"});
  refused("[1]", core::ExitCode::kDataError, {"object"});
  refused("", core::ExitCode::kDataError, {"JSON"});
  std::filesystem::remove(path());
  for (const std::filesystem::path& wrong :
       {path(), path().parent_path(), std::filesystem::path("/dev/zero")}) {
    try {
      const ConfigReader reader(wrong);
      ADD_FAILURE() << "accepted " << wrong;
    } catch (const core::UserError& error) {
      EXPECT_EQ(error.code(), core::ExitCode::kDataError);
      EXPECT_NE(std::string(error.what()).find(wrong.string()), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace fm::model
