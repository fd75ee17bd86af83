#include "model/family.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/check.h"

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

TEST_F(Families, AModelIsMadeAgainByOtherChoices) {
  const OpenedModel opened = open(R"("model_type": "llama")");
  const Model narrow = opened.make({.element = core::DType::kBF16});
  EXPECT_EQ(opened.model.element, core::DType::kF32);
  EXPECT_EQ(narrow.element, core::DType::kBF16);
  EXPECT_EQ(narrow.unit_count(), opened.model.unit_count());
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
