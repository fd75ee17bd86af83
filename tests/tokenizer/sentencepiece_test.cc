// SentencePiece models of ten pieces; tests/oracle/sentencepiece_parity.py asks the library.
#include <gtest/gtest.h>

#include "core/check.h"
#include "tests/data/scratch_folder.h"
#include "tests/tokenizer/small_tokenizers.h"
#include "tokenizer/tokenizer.h"

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
