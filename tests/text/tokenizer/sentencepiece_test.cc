// SentencePiece models of ten pieces; tests/oracle/sentencepiece_parity.py asks the library.
#include <gtest/gtest.h>

#include "core/check.h"
#include "tests/text/data/scratch_folder.h"
#include "tests/text/tokenizer/small_tokenizers.h"
#include "text/tokenizer/tokenizer.h"

namespace fm::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

class SentencePieces : public ::testing::Test {
 protected:
  std::unique_ptr<const Tokenizer> open(const std::string& bytes) const {
    return open_tokenizer(scratch_.write("m.model", bytes));
  }
  std::string refusal(const std::string& bytes) const {
    return fm::testing::message_of<core::UserError>(11, [&] { open(bytes); });
  }
  fm::testing::ScratchFolder scratch_;
};

constexpr int kUnigramType = 1;
constexpr int kBpeType = 2;

TEST_F(SentencePieces, BpeMergesTheHighestScoreFirst) {
  // One more piece, 10: ba would merge before ab if the lowest score came first.
  const std::string more = Message().text(1, sentence_piece("ba", -7, 1)).bytes();
  const auto tokenizer = open(small_model(kBpeType) + more);
  EXPECT_EQ(tokenizer->encode("ab"), (Ids{8}));               // \u2581a (-1), then \u2581ab
  EXPECT_EQ(tokenizer->encode("bab"), (Ids{9, 7}));           // ab (-2) before \u2581b (-6)
  EXPECT_EQ(tokenizer->encode("a zz b"), (Ids{6, 3, 0, 9}));  // two unknown characters are one
}

TEST_F(SentencePieces, UnigramTakesTheBestSum) {
  const auto tokenizer = open(small_model(kUnigramType));
  EXPECT_EQ(tokenizer->encode("ab"), (Ids{8}));      // -2.5 against \u2581 ab: -5
  EXPECT_EQ(tokenizer->encode("aab"), (Ids{6, 7}));  // -3
  EXPECT_EQ(tokenizer->encode("z"), (Ids{3, 0}));
}

TEST_F(SentencePieces, SpacesAreCollapsedAndTakenBack) {
  const auto tokenizer = open(small_model(kBpeType));
  EXPECT_EQ(tokenizer->encode("  a   b "), (Ids{6, 9}));
  EXPECT_EQ(tokenizer->encode("   "), Ids{});
  EXPECT_EQ(tokenizer->decode(Ids{1, 6, 9, 2}, Skip::kNothing), "a b");
  EXPECT_EQ(tokenizer->decode(Ids{6, 0}), "a \u2047 ");
}

TEST_F(SentencePieces, AConfigSaysWhatStandsAroundAText) {
  scratch_.write("tokenizer.model", small_model(kBpeType));
  const std::string folder = scratch_.path().string();
  EXPECT_EQ(open_tokenizer(folder)->encode("a"), (Ids{6}));
  EXPECT_EQ(open_tokenizer(folder)->special_ids().bos, 1);  // as the model itself says
  scratch_.write("tokenizer_config.json", R"({"add_bos_token": true, "bos_token": "<s>"})");
  EXPECT_EQ(open_tokenizer(folder)->encode("a"), (Ids{1, 6}));
  scratch_.write("tokenizer_config.json",
                 R"({"add_bos_token": false, "add_eos_token": true, "eos_token": "</s>"})");
  EXPECT_EQ(open_tokenizer(folder)->encode("a"), (Ids{6, 2}));
}

// Ids as transformers 4.57 (its fast classes, which AutoTokenizer takes) and 5.23 give them;
// without "legacy" those of 4.57.
TEST_F(SentencePieces, AConfigSaysWhereASpaceIsPut) {
  scratch_.write("tokenizer.model", small_model(kBpeType));
  const auto ids = [&](const std::string& keys, std::string_view text) {
    scratch_.write("tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer", )" + keys +
                                                R"( "bos_token": "<s>", "eos_token": "</s>"})");
    return open_tokenizer(scratch_.path().string())->encode(text);
  };
  for (const char* keys : {"", R"("legacy": true,)", R"("legacy": null,)"}) {
    EXPECT_EQ(ids(keys, "<s>ab</s>b"), (Ids{1, 8, 2, 9})) << keys;
    EXPECT_EQ(ids(keys, "a</s> b"), (Ids{6, 2, 9})) << keys;
  }
  constexpr const char* kNew = R"("legacy": false,)";
  EXPECT_EQ(ids(kNew, "<s>ab</s>b"), (Ids{1, 7, 2, 5}));
  EXPECT_EQ(ids(kNew, "ab</s> b"), (Ids{8, 2, 9}));
  EXPECT_EQ(ids(kNew, " ab"), (Ids{8}));
  EXPECT_EQ(ids(kNew, "\u2581ab"), (Ids{8}));
  EXPECT_EQ(ids(kNew, "  "), Ids{});
  for (const char* legacy : {"", R"("legacy": true,)", R"("legacy": false,)"}) {
    const std::string none = std::string(legacy) + R"("add_prefix_space": false,)";
    EXPECT_EQ(ids(none, "ab"), (Ids{7})) << legacy;
    EXPECT_EQ(ids(none, "  ab</s>b"), (Ids{8, 2, 5})) << legacy;
  }
  scratch_.write("tokenizer_config.json", R"({"add_prefix_space": 1})");
  EXPECT_NE(fm::testing::message_of<core::UserError>(
                11, [&] { open_tokenizer(scratch_.path().string()); })
                .find("add_prefix_space: true or false is required"),
            std::string::npos);
}

TEST_F(SentencePieces, AClassDecidesWhereTheModelPutsNoSpace) {
  const std::string no_space =
      Message().text(3, Message().text(1, "identity").number(3, 0).bytes()).bytes();
  scratch_.write("tokenizer.model", small_model(kBpeType) + no_space);
  const std::string folder = scratch_.path().string();
  const auto ids = [&](const std::string& config) {
    scratch_.write("tokenizer_config.json", config);
    return open_tokenizer(folder)->encode("a</s>a");
  };
  EXPECT_EQ(open_tokenizer(folder)->encode("a"), (Ids{4}));
  EXPECT_EQ(ids(R"({"tokenizer_class": "LlamaTokenizer", "eos_token": "</s>"})"), (Ids{6, 2, 6}));
  EXPECT_EQ(ids(R"({"tokenizer_class": "LlamaTokenizerFast", "legacy": false,
                    "eos_token": "</s>"})"),
            (Ids{6, 2, 4}));
  EXPECT_EQ(ids(R"({"tokenizer_class": "GemmaTokenizer", "legacy": false, "add_prefix_space": true,
                    "eos_token": "</s>"})"),
            (Ids{4, 2, 4}));
}

// <s> is found although "normalized" says that the normalised text is searched: transformers gives
// the model no text with a token in it.
TEST_F(SentencePieces, AddedTokensAreFoundInTheTextAsItIs) {
  scratch_.write("tokenizer.model", small_model(kBpeType));
  scratch_.write("tokenizer_config.json",
                 R"({"eos_token": {"content": "</s>", "normalized": true}})");
  scratch_.write("added_tokens.json", R"({"[x]": 10})");
  EXPECT_EQ(open_tokenizer(scratch_.path().string())->encode("a</s>b[x]a"), (Ids{6, 2, 9, 10, 6}));
}

TEST_F(SentencePieces, ASpaceThatWasPutIsTakenBack) {
  scratch_.write("tokenizer.model", small_model(kBpeType));
  const auto decoded = [&](const std::string& config) {
    scratch_.write("tokenizer_config.json", config);
    return open_tokenizer(scratch_.path().string())->decode(Ids{6, 9});
  };
  EXPECT_EQ(decoded(R"({"legacy": false})"), "a b");
  EXPECT_EQ(decoded(R"({"add_prefix_space": false})"), " a b");
}

TEST_F(SentencePieces, WhatIsNoModelIsRefused) {
  const std::string good = small_model(kBpeType);
  EXPECT_NE(refusal("").find("m.model: pieces are required"), std::string::npos);
  EXPECT_NE(refusal("IQ== 0\n").find("a SentencePiece model is required"), std::string::npos);
  EXPECT_NE(refusal(good.substr(0, good.size() - 1)).find("m.model: "), std::string::npos);
  EXPECT_NE(refusal(small_model(3)).find("model type WORD is not supported"), std::string::npos);
  const auto add = [&](const std::string& piece) {
    return good + Message().text(1, piece).bytes();
  };
  EXPECT_NE(refusal(add(sentence_piece("ab", 0, 1))).find("must be there once"), std::string::npos);
  EXPECT_NE(refusal(add(sentence_piece("u", 0, 2))).find("one unknown piece"), std::string::npos);
  EXPECT_NE(refusal(add(sentence_piece("u", 0, 5))).find("unused pieces"), std::string::npos);
  EXPECT_NE(refusal(add(sentence_piece("<0xQ1>", 0, 6))).find("a byte piece is"),
            std::string::npos);
}

}  // namespace
}  // namespace fm::tokenizer
