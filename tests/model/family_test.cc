#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <regex>

#include "core/check.h"
#include "model/opened_model.h"
#include "tests/model/family_jsons.h"

namespace fm::model {
namespace {

class Families : public testing::Test {
 protected:
  OpenedModel open(const std::string& type_and_more, const ModelChoices& choices = {}) const {
    const std::string path = testing::TempDir() + "/fm_family_config.json";
    std::ofstream(path) << R"({"vocab_size": 300, "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 77, )"
                        << type_and_more << "}";
    return open_model(path, choices);
  }
};

TEST_F(Families, OpenByTheirModelType) {
  const OpenedModel opened = open(R"("model_type": "llama", "tie_word_embeddings": true)");
  EXPECT_EQ(opened.model.unit_count(), 5);
  EXPECT_EQ(opened.model.vocab, 300);
  EXPECT_EQ(opened.facts.family, "Llama");
  EXPECT_EQ(opened.facts.max_positions, 77);
  EXPECT_EQ(opened.facts.sizes,
            "hidden 64, layers 3, heads 4 (kv 2), ffn 96, vocabulary 300, tied");
}

TEST_F(Families, OthersAreRefusedWithWhatIsSupported) {
  for (const char* type : {R"("model_type": "mamba")", R"("model_type": "")", R"("x": 1)"}) {
    try {
      open(type);
      ADD_FAILURE() << type;
    } catch (const core::UserError& error) {
      EXPECT_EQ(error.code(), core::ExitCode::kConfigError);
      const std::string message = error.what();
      EXPECT_NE(message.find("key model_type: supported are \"llama\", \"mistral\""),
                std::string::npos)
          << message;
    }
  }
}

TEST_F(Families, MoreIdsAreMoreRowsButInAModelOfImages) {
  EXPECT_EQ(open(R"("model_type": "llama")", {.vocab_at_least = 310}).model.vocab, 310);
  const std::string images = R"("model_type": "qwen2_5_vl", "vision_config": {"depth": 1})";
  EXPECT_EQ(open(images, {.vocab_at_least = 300}).model.vocab, 300);
  EXPECT_THROW(open(images, {.vocab_at_least = 301}), core::UserError);
}

TEST_F(Families, AModelIsMadeAgainByOtherChoices) {
  const OpenedModel opened = open(R"("model_type": "llama")");
  const Model narrow = opened.make({.element = core::DType::kBF16});
  EXPECT_EQ(opened.model.element, core::DType::kF32);
  EXPECT_EQ(narrow.element, core::DType::kBF16);
  EXPECT_EQ(narrow.unit_count(), opened.model.unit_count());
}

// transformers 5.23, Trainer.get_decay_parameter_names: by these patterns of names, and by the
// class torch.nn.LayerNorm, which GPT-2, GPT-J and Falcon call ln_1, ln_2, ln_attn, ln_mlp and
// ln_f.
TEST_F(Families, LeaveOutOfWeightDecayWhatTheTrainerDoes) {
  const std::regex forbidden(
      R"(bias|layernorm|rmsnorm|(?:^|\.)norm(?:$|\.)|_norm(?:$|\.)|\.ln_(?:[12f]|attn|mlp)\.)");
  const std::string path = testing::TempDir() + "/fm_family_groups.json";
  for (const FamilyJson& family : family_jsons()) {
    std::ofstream(path) << family.text;
    const OpenedModel opened = open_model(path, {.no_decay = {.norm = true, .bias = true}});
    int left_out = 0;
    for (int unit = 0; unit < opened.model.unit_count(); ++unit) {
      const core::ParamTable& table = opened.model.table(unit);
      for (const core::ParamEntry& entry : table.entries()) {
        const bool decays = entry.offset < table.decayed();
        EXPECT_EQ(decays, !std::regex_search(entry.name, forbidden)) << entry.name;
        left_out += decays ? 0 : 1;
      }
    }
    EXPECT_GE(left_out, 4) << family.name;  // a norm of each block, and the last one
  }
}

// PreTrainedModel._init_weights of transformers 5.23, and what GPT2 and Gemma add to it.
TEST_F(Families, BeginAsTransformersDoes) {
  const auto of = [](const OpenedModel& opened, const std::string& ending) {
    for (int unit = 0; unit < opened.model.unit_count(); ++unit) {
      for (const core::ParamEntry& entry : opened.model.table(unit).entries()) {
        if (!entry.name.ends_with(ending)) continue;
        std::vector<float> out(static_cast<std::size_t>(entry.numel.count()));
        opened.init(entry, 5, core::Elements(0), out);
        return out;
      }
    }
    ADD_FAILURE() << "no " << ending;
    return std::vector<float>();
  };
  const auto deviation = [](const std::vector<float>& values) {
    double squares = 0.0;
    for (const float value : values) squares += double{value} * double{value};
    return std::sqrt(squares / static_cast<double>(values.size()));
  };
  const std::string gpt2 = R"("model_type": "gpt2", "n_embd": 64, "n_layer": 8, "n_head": 4,
      "attn_pdrop": 0, "resid_pdrop": 0, "embd_pdrop": 0)";
  const OpenedModel transposed = open(gpt2);
  EXPECT_EQ(of(transposed, "h.3.ln_1.weight"), std::vector<float>(64, 1.0F));
  EXPECT_EQ(of(transposed, "h.3.ln_1.bias"), std::vector<float>(64, 0.0F));
  EXPECT_EQ(of(transposed, "h.3.attn.c_attn.bias"), std::vector<float>(192, 0.0F));
  EXPECT_NEAR(deviation(of(transposed, "h.3.attn.c_attn.weight")), 0.02, 0.0006);
  EXPECT_NEAR(deviation(of(transposed, "h.3.mlp.c_proj.weight")), 0.02 / 4.0, 0.0002);
  EXPECT_NEAR(deviation(of(transposed, "h.3.attn.c_proj.weight")), 0.02 / 4.0, 0.0002);
  const OpenedModel from_zero = open(R"("model_type": "gemma", "head_dim": 16)");
  EXPECT_EQ(of(from_zero, "layers.1.input_layernorm.weight"), std::vector<float>(64, 0.0F));
  EXPECT_EQ(of(from_zero, "model.norm.weight"), std::vector<float>(64, 0.0F));
  const OpenedModel biased = open(R"("model_type": "qwen2")");
  EXPECT_EQ(of(biased, "layers.1.self_attn.k_proj.bias"), std::vector<float>(32, 0.0F));
}

TEST_F(Families, AnExportNamesTheArchitectureOfItsFamily) {
  const OpenedModel opened =
      open(R"("model_type": "olmo2", "architectures": ["Olmo2Model"], "pad_token_id": null)");
  EXPECT_NE(opened.facts.config_json.find("Olmo2ForCausalLM"), std::string::npos);
  EXPECT_EQ(opened.facts.family, "OLMo2");
}

TEST_F(Families, TheRowOfThePadIsClearedInEverySlice) {
  const OpenedModel opened = open(R"("model_type": "llama", "pad_token_id": 2)");
  const core::ParamEntry& entry = opened.model.table(0).at(0);
  std::vector<float> whole(300 * 64);
  opened.init(entry, 5, core::Elements(0), whole);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    ASSERT_EQ(whole[i] == 0.0F, i / 64 == 2) << i;
  }
  for (const std::int64_t first : {100, 128, 150, 192}) {
    std::vector<float> part(70);
    opened.init(entry, 5, core::Elements(first), part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first)) << first;
  }
}

}  // namespace
}  // namespace fm::model
