// Tokens that a run adds. The ids and the files are those of transformers 5.23 after
// add_special_tokens({"additional_special_tokens": [...]}) and save_pretrained.
#include "text/tokenizer/extra_tokens.h"

#include <gtest/gtest.h>

#include "core/check.h"
#include "core/json_tree.h"
#include "tests/text/data/scratch_folder.h"
#include "tests/text/tokenizer/small_tokenizers.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/tokenizer.h"

namespace fm::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

const ExtraTokens kChatMl{.tokens = {"<|im_start|>", "<|im_end|>"}};

class ExtraTokensOf : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const { scratch_.write(name, text); }
  std::unique_ptr<const Tokenizer> opened(const core::FileTexts& texts) const {
    return open_tokenizer(folder_.string(), texts);
  }
  // As an export has it.
  std::unique_ptr<const Tokenizer> written(const core::FileTexts& texts) const {
    for (const auto& [name, text] : texts) write(name, text);
    return open_tokenizer(folder_.string());
  }
  static core::JsonTree tree(const core::FileTexts& texts, const std::string& name) {
    return core::parse_json(texts.at(name), name);
  }

  fm::testing::ScratchFolder scratch_;
  const std::filesystem::path folder_ = scratch_.path();
};

TEST_F(ExtraTokensOf, TokenizerJsonFollowTheLastId) {
  write("tokenizer.json", std::string(kByteLevelJson));  // ids 0 to 15
  const core::FileTexts texts = with_tokens(folder_, kChatMl);
  EXPECT_EQ(texts.size(), 1U);
  const Ids expected = {16, 3, 17};
  EXPECT_EQ(opened(texts)->encode("<|im_start|>o<|im_end|>", SpecialTokens::kNone), expected);
  EXPECT_EQ(opened(texts)->id_limit(), 18);
  EXPECT_NE(opened(texts)->identity(), opened({})->identity());  // so no cache serves older ids
  const auto again = written(texts);
  EXPECT_EQ(again->encode("<|im_start|>o<|im_end|>", SpecialTokens::kNone), expected);
  EXPECT_EQ(again->decode(expected), "o");  // they are special
  const core::JsonTree file = tree(texts, "tokenizer.json");
  const core::JsonTree& last = file.at("added_tokens").array().back();
  EXPECT_EQ(last.at("id").whole(), 17);
  EXPECT_EQ(last.at("content").string(), "<|im_end|>");
  EXPECT_FALSE(last.at("normalized").flag());
  EXPECT_TRUE(last.at("special").flag());
}

// A token that only tokenizer_config.json names has an id behind those of tokenizer.json.
TEST_F(ExtraTokensOf, TokensOfTheConfigKeepTheirIds) {
  write("tokenizer.json", std::string(kByteLevelJson));
  write("tokenizer_config.json", R"({"model_max_length": 1e30, "eos_token": "</s>"})");
  ASSERT_EQ(opened({})->token_to_id("</s>"), 16);
  const core::FileTexts texts = with_tokens(folder_, kChatMl);
  EXPECT_EQ(texts.at("tokenizer_config.json"),
            R"({"model_max_length": 1e30, "eos_token": "</s>", )"
            R"("additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})");
  const auto again = written(texts);
  EXPECT_EQ(again->token_to_id("</s>"), 16);
  EXPECT_EQ(again->token_to_id("<|im_end|>"), 18);
  EXPECT_EQ(again->id_limit(), 19);
}

TEST_F(ExtraTokensOf, KnownTokensGetNoOtherId) {
  write("tokenizer.json", std::string(kByteLevelJson));
  const core::FileTexts texts = with_tokens(folder_, {.tokens = {"[x]", "led", "<new>"}});
  EXPECT_EQ(opened(texts)->token_to_id("[x]"), opened({})->token_to_id("[x]"));
  EXPECT_EQ(opened(texts)->token_to_id("led"), opened({})->token_to_id("led"));
  EXPECT_EQ(opened(texts)->token_to_id("<new>"), 16);
  EXPECT_EQ(opened(texts)->decode(Ids{opened({})->token_to_id("led")}), "");  // it is special now
}

// What transformers 4 wrote beside it.
TEST_F(ExtraTokensOf, FoldersOfTransformers4NameThemInEachFile) {
  write("tokenizer.json", std::string(kByteLevelJson));
  write("tokenizer_config.json",
        R"({"added_tokens_decoder": {"13": {"content": "<s>", "special": true}},
            "extra_special_tokens": {}, "bos_token": "<s>"})");
  write("special_tokens_map.json", R"({"additional_special_tokens": [{"content": "<s>"}]})");
  write("added_tokens.json", R"({"<s>": 13})");
  const core::FileTexts texts = with_tokens(folder_, kChatMl);
  const core::JsonTree config = tree(texts, "tokenizer_config.json");
  EXPECT_EQ(config.at("added_tokens_decoder").at("17").at("content").string(), "<|im_end|>");
  EXPECT_EQ(config.at("additional_special_tokens").array().size(), 2U);
  EXPECT_EQ(tree(texts, "special_tokens_map.json").at("additional_special_tokens").array().size(),
            3U);
  EXPECT_EQ(texts.at("added_tokens.json"),
            R"({"<s>": 13, "[x]": 14, "led": 15, "<|im_start|>": 16, "<|im_end|>": 17})");
  EXPECT_EQ(written(texts)->token_to_id("<|im_end|>"), 17);
}

TEST_F(ExtraTokensOf, Transformers5NamesThemAsAList) {
  write("tokenizer.json", std::string(kByteLevelJson));
  write("tokenizer_config.json", R"({"extra_special_tokens": ["[x]"]})");
  EXPECT_EQ(with_tokens(folder_, kChatMl).at("tokenizer_config.json"),
            R"({"extra_special_tokens": ["[x]", "<|im_start|>", "<|im_end|>"]})");
}

TEST_F(ExtraTokensOf, VocabAndMergesHaveThemInAddedTokensJson) {
  write("vocab.json", R"({"a": 0, "b": 1, "ab": 2})");
  write("merges.txt", "#version: 0.2\na b\n");
  write("tokenizer_config.json", R"({"eos_token": "</s>"})");  // 3, as it is in no other file
  const core::FileTexts texts = with_tokens(folder_, kChatMl);
  EXPECT_EQ(texts.at("added_tokens.json"),
            "{\"</s>\": 3, \"<|im_start|>\": 4, \"<|im_end|>\": 5}\n");
  const auto again = written(texts);
  EXPECT_EQ(again->encode("ab<|im_end|>", SpecialTokens::kNone), (Ids{2, 5}));
  EXPECT_EQ(again->decode(Ids{2, 3, 5}), "ab");
}

TEST_F(ExtraTokensOf, ANewEosEndsATextBesideTheOldOne) {
  write("tokenizer.json", std::string(kByteLevelJson));
  write("tokenizer_config.json", R"({"bos_token": "[x]", "eos_token": "<s>"})");
  ExtraTokens extra = kChatMl;
  extra.eos = "<|im_end|>";
  EXPECT_EQ(with_tokens(folder_, extra).at("generation_config.json"),
            "{\"bos_token_id\": 14, \"eos_token_id\": [17, 13]}\n");
  write("generation_config.json", R"({"eos_token_id": [2, 17], "temperature": 0.7})");
  const core::FileTexts texts = with_tokens(folder_, extra);
  EXPECT_EQ(texts.at("generation_config.json"), R"({"eos_token_id": [17, 2], "temperature": 0.7})");
  EXPECT_EQ(written(texts)->special_ids().eos, 17);
  EXPECT_EQ(opened({})->special_ids().ends, (Ids{17, 2}));
  const std::string said =
      testing::message_of<core::UserError>(10, [&] { with_tokens(folder_, {.eos = "<|none|>"}); });
  EXPECT_NE(said.find("--add_tokens \"<|none|>\""), std::string::npos) << said;
}

}  // namespace
}  // namespace fm::tokenizer
