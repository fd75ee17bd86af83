// Encoding and decoding with small tokenizers whose ids can be told by hand; the wheels themselves
// are asked by tests/oracle/tokenizers_parity.py.
#include "text/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/check.h"
#include "tests/text/data/scratch_folder.h"
#include "tests/text/tokenizer/small_tokenizers.h"

namespace fm::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

class Tokenizers : public ::testing::Test {
 protected:
  std::unique_ptr<const Tokenizer> open(std::string_view json) const {
    return open_tokenizer(scratch_.write("tokenizer.json", json));
  }
  std::string refusal(std::string_view json) const {
    return fm::testing::message_of<core::UserError>(11, [&] { open(json); });
  }
  fm::testing::ScratchFolder scratch_;
};

TEST_F(Tokenizers, MergeByRankWithinWords) {
  const auto tokenizer = open(kByteLevelJson);
  EXPECT_EQ(tokenizer->encode("hello hell!", SpecialTokens::kNone), (Ids{12, 4, 11, 8}));
  EXPECT_EQ(tokenizer->encode("ohello", SpecialTokens::kNone), (Ids{3, 12}));
  EXPECT_EQ(tokenizer->encode("", SpecialTokens::kNone), Ids{});
  EXPECT_EQ(tokenizer->encode("hxo", SpecialTokens::kNone),
            (Ids{0, 3}));  // x: unknown, no unk_token
}

TEST_F(Tokenizers, PutWhatTheTemplateSaysAroundAText) {
  const auto tokenizer = open(kByteLevelJson);
  EXPECT_EQ(tokenizer->encode("hello"), (Ids{13, 12}));
  EXPECT_EQ(tokenizer->encode(""), (Ids{13}));
  const std::string text = R"({"Sequence": {"id": "A", "type_id": 0}})";
  const auto behind = open(with(with(kByteLevelJson, text, R"({"SpecialToken": {"id": "<s>"}})"),
                                R"({"SpecialToken": {"id": "<s>", "type_id": 0}})", text));
  EXPECT_EQ(behind->encode("hello"), (Ids{12, 13}));
}

// The sums: ab -2.5 against a b -3.5; bb -5 against b b -4.
TEST_F(Tokenizers, UnigramTakesTheBestSum) {
  const auto tokenizer = open(R"({"decoder": {"type": "Fuse"}, "model": {"type": "Unigram",
    "unk_id": 0, "byte_fallback": false,
    "vocab": [["<unk>", 0], ["a", -1.5], ["b", -2], ["ab", -2.5], ["bb", -5]]}})");
  EXPECT_EQ(tokenizer->encode("abb"), (Ids{3, 2}));
  EXPECT_EQ(tokenizer->encode("bb"), (Ids{2, 2}));
  EXPECT_EQ(tokenizer->encode("axyb"), (Ids{1, 0, 2}));  // unknown neighbours are one
  EXPECT_EQ(tokenizer->decode(Ids{3, 2}), "abb");
}

// Read to the nearest double, "ab" would be a bit worse than "a" and "b"; the tokenizers wheel 0.23
// reads both scores alike, and of equal sums the longer piece was there first.
TEST_F(Tokenizers, ScoresOfUnigramAreReadAsTheWheelReadsThem) {
  const auto ids = [&](const std::string& score) {
    return open(R"({"model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false,
                    "vocab": [["<unk>", 0.0], ["a", -15.27549237953228], ["b", 0.0], ["ab", )" +
                score + R"(]]}})")
        ->encode("ab");
  };
  EXPECT_EQ(ids("-15.275492379532281"), (Ids{3}));
  EXPECT_EQ(ids("-15.27549237953229"), (Ids{1, 2}));
}

// Both pieces count where an added token gets the next id, as in tokenizers 0.23.
TEST_F(Tokenizers, APieceOfUnigramMayBeThereTwice) {
  const auto tokenizer = open(R"({"added_tokens": [{"id": 4, "content": "<s>", "special": true,
      "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}],
    "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false,
    "vocab": [["<unk>", 0], ["a", -1.5], ["<unk>", -3], ["b", -2]]}})");
  EXPECT_EQ(tokenizer->encode("a<s>b"), (Ids{1, 4, 3}));
}

TEST_F(Tokenizers, FindAddedTokensFirst) {
  const auto tokenizer = open(kByteLevelJson);
  const auto ids = [&](std::string_view text) {
    return tokenizer->encode(text, SpecialTokens::kNone);
  };
  EXPECT_EQ(ids("o<s>o"), (Ids{3, 13, 3}));
  EXPECT_EQ(ids("o  [x] o"), (Ids{3, 14, 3}));  // takes the spaces on both sides
  EXPECT_EQ(ids("led"), (Ids{15}));
  EXPECT_EQ(ids("lede"), (Ids{2, 1, 7, 1}));  // part of a word
  EXPECT_EQ(ids("!led!"), (Ids{8, 15, 8}));
}

// Expected ids are those of tokenizers 0.23.3: what stands in taken spaces is there only where it
// does not begin behind them.
TEST_F(Tokenizers, AnAddedTokenOfTakenSpacesIsNone) {
  const auto ids = [&](const std::string& strips) {
    return open(R"({"added_tokens": [
      {"id": 2, "content": "[x]", "rstrip": true, "lstrip": false, "normalized": false,
       "single_word": false, "special": false},
      {"id": 3, "content": "\t", "rstrip": false, "lstrip": )" +
                strips + R"(, "normalized": false, "single_word": false, "special": false}],
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})")
        ->encode("a[x]\tb\ta");
  };
  EXPECT_EQ(ids("true"), (Ids{0, 2, 1, 3, 0}));
  EXPECT_EQ(ids("false"), (Ids{0, 2, 3, 1, 3, 0}));
}

// In tokenizers 0.23.3 the mark is put before the first character, and here there is none.
TEST_F(Tokenizers, NothingStandsBeforeATextThatANormalizerEmpties) {
  const auto ids = [&](const std::string& pre_tokenizer) {
    const auto tokenizer = open(R"({"normalizer": {"type": "Strip"}, "pre_tokenizer": )" +
                                pre_tokenizer + R"(, "model": {"type": "BPE", "merges": [],
      "vocab": {"a": 0, "\u2581": 1, "\u0120": 2}}})");
    const Ids of_spaces = tokenizer->encode(" \t");
    EXPECT_EQ(of_spaces, Ids{});
    return tokenizer->encode(" a");
  };
  EXPECT_EQ(ids(R"({"type": "Metaspace", "prepend_scheme": "always"})"), (Ids{1, 0}));
  EXPECT_EQ(ids(R"({"type": "ByteLevel", "add_prefix_space": true})"), (Ids{2, 0}));
}

// In tokenizers 0.23.3 what replaces several characters stands where the last of them stood.
TEST_F(Tokenizers, AMarkOfTheStartStandsBeforeOneReplacedCharacterOnly) {
  const auto tokenizer = open(R"({
    "normalizer": {"type": "Replace", "pattern": {"Regex": "c+"}, "content": "a"},
    "pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "first"},
    "model": {"type": "BPE", "merges": [], "vocab": {"a": 0, "\u2581": 1}}})");
  EXPECT_EQ(tokenizer->encode("c"), (Ids{1, 0}));
  EXPECT_EQ(tokenizer->encode("cc"), (Ids{0}));
  EXPECT_EQ(tokenizer->encode("acc"), (Ids{1, 0, 0}));
}

TEST_F(Tokenizers, DecodeBytesAndSkipSpecialTokens) {
  const auto tokenizer = open(kByteLevelJson);
  const Ids ids = {13, 12, 4, 5, 3, 6, 2, 7, 99};
  EXPECT_EQ(tokenizer->decode(ids), "hello world");
  EXPECT_EQ(tokenizer->decode(ids, Skip::kNothing), "<s>hello world");
  EXPECT_EQ(tokenizer->decode({}), "");
}

TEST_F(Tokenizers, UnknownCharactersBecomeBytesAndBack) {
  const auto tokenizer = open(kMetaSpaceJson);
  EXPECT_EQ(tokenizer->encode("ab a"), (Ids{9, 7}));
  EXPECT_EQ(tokenizer->encode("a\u00E9b"), (Ids{7, 2, 3, 6}));
  EXPECT_EQ(tokenizer->encode("xyb"), (Ids{4, 0, 6}));  // no bytes for x and y: one <unk> for both
  EXPECT_EQ(tokenizer->decode(Ids{7, 2, 3, 6}), "a\u00E9b");
  EXPECT_EQ(tokenizer->decode(Ids{7, 2, 6}), "a\uFFFDb");
}

TEST_F(Tokenizers, BytesThatAreNoTextCountAsReplacements) {
  const auto tokenizer = open(kMetaSpaceJson);
  EXPECT_EQ(tokenizer->encode("a\xFF"
                              "b"),
            tokenizer->encode("a\uFFFDb"));
}

TEST_F(Tokenizers, AnswerForTheirVocabulary) {
  const auto tokenizer = open(kByteLevelJson);
  EXPECT_EQ(tokenizer->vocab_size(), 16);
  EXPECT_EQ(tokenizer->id_limit(), 16);
  EXPECT_EQ(tokenizer->token_to_id("hell"), 11);
  EXPECT_EQ(tokenizer->token_to_id("[x]"), 14);
  EXPECT_EQ(tokenizer->token_to_id("nobody"), kNoToken);
  EXPECT_EQ(tokenizer->id_to_token(12), "hello");
  EXPECT_EQ(tokenizer->id_to_token(16), std::nullopt);
}

TEST_F(Tokenizers, RefuseByNameWhatTheyCannotDo) {
  const auto names = [&](std::string_view piece, std::string_view other, std::string_view named) {
    const std::string said = refusal(with(kMetaSpaceJson, piece, other));
    EXPECT_NE(said.find(named), std::string::npos) << said;
    EXPECT_NE(said.find("tokenizer.json: "), std::string::npos) << said;
  };
  names(R"("Prepend", "prepend")", R"("Fancy", "prepend")",
        R"(normalizer.normalizers[0]: normalizer "Fancy" is not supported)");
  names(R"("pre_tokenizer": null)", R"("pre_tokenizer": {"type": "UnicodeScripts"})",
        R"(pre_tokenizer: pre-tokenizer "UnicodeScripts" is not supported)");
  names(R"("post_processor": null)", R"("post_processor": {"type": "Odd"})",
        R"(post-processor "Odd" is not supported)");
  names(R"("Fuse")", R"("CTC")", R"(decoder.decoders[2]: decoder "CTC" is not supported)");
  names(R"("type": "BPE")", R"("type": "WordPiece")", R"(model "WordPiece" is not supported)");
  names(R"("unk_token")", R"("dropout": 0.1, "unk_token")", "dropout is not supported");
  names(R"(["a", "b"])", R"(["a", "c"])", "merge 1 and its product must be in the vocabulary");
  names(R"("version": "1.0")", R"("version": "2.0")", "version 1.0 is required");
  names(R"("a": 5)", R"("a": -5)", "model.vocab must be");
  names(R"(["a", "b"])", R"(["a"])", "model.merges must be");
  names(R"("content": "<s>")", R"("content": 3)", "added_tokens[1].content: a string is required");
}

// What tokenizers 0.23 refuses: a field that is missing or of another type, also where no id
// depends on it.
TEST_F(Tokenizers, RefuseAddedTokensAndLimitsAsTheWheelDoes) {
  const auto refused = [&](std::string_view piece, std::string_view other, std::string_view named) {
    const std::string said = refusal(with(kByteLevelJson, piece, other));
    EXPECT_NE(said.find(named), std::string::npos) << said;
  };
  for (const char* id :
       {"-1", "4611686018427387904", "4294967296", "1.5", "13.0", "\"7\"", "true"}) {
    refused(R"("id": 13)", std::string(R"("id": )") + id,
            "added_tokens[0].id: an integer from 0 to 4294967295 is required");
  }
  refused(R"("id": 13)", R"("id": null)", R"(added_tokens[0]: key "id" is required)");
  refused(R"("id": 13, )", "", R"(added_tokens[0]: key "id" is required)");
  refused(R"(, "special": true)", "", R"(added_tokens[0]: key "special" is required)");
  refused(R"("rstrip": false,)", "", R"(added_tokens[0]: key "rstrip" is required)");
  refused(R"("normalized": false, )", "", R"(added_tokens[0]: key "normalized" is required)");
  refused(R"("special": true)", R"("special": 1)", "special: true or false is required");
  constexpr std::string_view kCut = R"("truncation": null)";
  refused(kCut, R"("truncation": true)", "truncation: an object is required");
  refused(kCut, R"("truncation": {"max_length": 5})", R"(truncation: key "stride" is required)");
  refused(kCut, R"("truncation": {"max_length": -5, "stride": 0, "strategy": "OnlyFirst"})",
          "truncation.max_length: an integer from 0");
  refused(
      kCut, R"("truncation": {"max_length": 5, "stride": 0, "strategy": "longest_first"})",
      "one of LongestFirst, OnlyFirst, OnlySecond is required; correct the file (longest_first)");
  refused(R"("padding": null)", R"("padding": 1)", "padding: an object is required");
  refused(R"("padding": null)", R"("padding": {"strategy": "Fixed"})",
          "one of BatchLongest is required; correct the file (Fixed)");

  const std::string limits =
      with(with(kByteLevelJson, kCut,
                R"("truncation": {"max_length": 1, "stride": 0, "strategy": "LongestFirst"})"),
           R"("padding": null)", R"("padding": {"strategy": {"Fixed": 5}, "direction": "Left",
        "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "h"})");
  EXPECT_EQ(open(limits)->encode("hello hell!"), (Ids{13, 12, 4, 11, 8}));
}

TEST_F(Tokenizers, EncodeAlikeOnManyThreads) {
  const auto tokenizer = open(kByteLevelJson);
  const std::string text = "hello hell! led [x] wholl ";
  const Ids expected = tokenizer->encode(text);
  std::vector<Ids> found(400);
  {
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        for (std::size_t i = thread; i < found.size(); i += 4) found[i] = tokenizer->encode(text);
      });
    }
  }
  for (const Ids& ids : found) ASSERT_EQ(ids, expected);
}

TEST_F(Tokenizers, StreamTextAsIdsCome) {
  const auto tokenizer = open(kMetaSpaceJson);
  StreamDecoder stream(*tokenizer);
  EXPECT_EQ(stream.put(9), "ab");
  EXPECT_EQ(stream.put(7), " a");  // its space stays, as only the first word loses it
  EXPECT_EQ(stream.put(2), "");    // half of a character
  EXPECT_EQ(stream.put(3), "\u00E9");
  EXPECT_EQ(stream.put(2), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
}

TEST_F(Tokenizers, StreamingGivesTheSameTextAsDecoding) {
  const auto tokenizer = open(kMetaSpaceJson);
  const Ids ids = {4, 4, 9, 6, 2, 3, 7, 1, 8, 0, 4};
  StreamDecoder stream(*tokenizer);
  std::string text;
  for (const TokenId id : ids) text += stream.put(id);
  text += stream.finish();
  EXPECT_EQ(text, tokenizer->decode(ids));
}

TEST_F(Tokenizers, OfAFolderKnowTheSpecialIdsOfItsFiles) {
  scratch_.write("tokenizer.json", kByteLevelJson);
  scratch_.write("tokenizer_config.json",
                 R"({"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false},
                     "added_tokens_decoder": {"17": {"content": "<|user|>", "special": true}}})");
  scratch_.write("special_tokens_map.json", R"({"pad_token": "[x]", "eos_token": "led"})");
  scratch_.write("generation_config.json", R"({"eos_token_id": [17, 3, 17]})");
  const auto tokenizer = open_tokenizer(scratch_.path().string());
  // transformers adds <|user|> and then </s> behind the last id.
  EXPECT_EQ(tokenizer->encode("o<|user|></s>", SpecialTokens::kNone), (Ids{3, 16, 17}));
  EXPECT_EQ(tokenizer->special_ids().bos, 13);
  EXPECT_EQ(tokenizer->special_ids().eos, 17);
  EXPECT_EQ(tokenizer->special_ids().pad, 14);
  EXPECT_EQ(tokenizer->special_ids().unk, kNoToken);
  EXPECT_EQ(tokenizer->special_ids().ends, (Ids{17, 3}));
  EXPECT_EQ(tokenizer->decode(Ids{3, 17, 16}), "o");
  EXPECT_EQ(tokenizer->files().size(), 3U);
}

// As transformers 4.57 and 5.23 read them, which give ids behind the last one.
TEST_F(Tokenizers, OfAFolderReadAddedTokensJsonWhereTheConfigListsNone) {
  scratch_.write("tokenizer.json", kByteLevelJson);
  scratch_.write("added_tokens.json", R"({"<two>": 21, "<one>": 20, "[x]": 14})");
  const auto open_folder = [&] { return open_tokenizer(scratch_.path().string()); };
  EXPECT_EQ(open_folder()->encode("o<one><two> [x] o", SpecialTokens::kNone),
            (Ids{3, 16, 17, 14, 3}));
  EXPECT_EQ(open_folder()->decode(Ids{16, 17}), "<one><two>");
  scratch_.write("tokenizer_config.json", R"({"pad_token": "<two>"})");  // which makes it special
  EXPECT_EQ(open_folder()->decode(Ids{16, 17}), "<one>");
  EXPECT_EQ(open_folder()->special_ids().pad, 17);
  scratch_.write("tokenizer_config.json", R"({"added_tokens_decoder": {}})");
  EXPECT_EQ(open_folder()->token_to_id("<one>"), kNoToken);
  scratch_.write("tokenizer_config.json",
                 R"({"added_tokens_decoder": {"16": {"content": "<three>"}}})");
  EXPECT_EQ(open_folder()->encode("<three>", SpecialTokens::kNone), (Ids{16}));
  EXPECT_EQ(open_folder()->token_to_id("<two>"), kNoToken);
}

// As transformers 5.23 reads them: tokens with names of the model's own come before the others, and
// model_specific_special_tokens counts where no other key names such a token.
TEST_F(Tokenizers, OfAFolderReadTokensWithNamesOfTheModelsOwn) {
  scratch_.write("tokenizer.json", kByteLevelJson);
  const auto id = [&](const std::string& config, std::string_view token) {
    scratch_.write("tokenizer_config.json", config);
    return open_tokenizer(scratch_.path().string())->token_to_id(token);
  };
  const std::string specific = R"("model_specific_special_tokens": {"image_token": "<i>"})";
  EXPECT_EQ(id("{" + specific + "}", "<i>"), 16);
  EXPECT_EQ(id("{" + specific + R"(, "additional_special_tokens": ["<a>"]})", "<a>"), 17);
  EXPECT_EQ(id("{" + specific + R"(, "video_token": "<v>"})", "<v>"), 16);
  EXPECT_EQ(id("{" + specific + R"(, "video_token": "<v>"})", "<i>"), kNoToken);
  EXPECT_EQ(id("{" + specific + R"(, "extra_special_tokens": {"boi": "<b>"}})", "<b>"), 16);
  EXPECT_EQ(id(R"({"add_bos_token": true, "video_token": null})", "<v>"), kNoToken);
}

TEST_F(Tokenizers, OfAFolderSplitSpecialTokensOnDemand) {
  scratch_.write("tokenizer.json", kByteLevelJson);
  scratch_.write("tokenizer_config.json", R"({"split_special_tokens": true, "bos_token": "h"})");
  const auto tokenizer = open_tokenizer(scratch_.path().string());
  // The text is cut, what the template adds is not, and a token that is not special stays.
  EXPECT_EQ(tokenizer->encode("he [x]"), (Ids{13, 9, 14}));
  EXPECT_EQ(tokenizer->encode("<s>", SpecialTokens::kNone), Ids{});
}

TEST_F(Tokenizers, ChangeTheirIdentityWithTheirFiles) {
  scratch_.write("tokenizer.json", kByteLevelJson);
  const auto identity = [&] { return open_tokenizer(scratch_.path().string())->identity(); };
  const std::string before = identity();
  EXPECT_EQ(before.size(), 16U);
  EXPECT_EQ(identity(), before);
  scratch_.write("generation_config.json", R"({"eos_token_id": 3})");  // decides about no id
  EXPECT_EQ(identity(), before);
  scratch_.write("tokenizer_config.json", R"({"eos_token": "</s>"})");
  const std::string with_config = identity();
  EXPECT_NE(with_config, before);
  scratch_.write("tokenizer_config.json", R"({"eos_token": "<s/>"})");
  EXPECT_NE(identity(), with_config);
}

TEST_F(Tokenizers, OfVocabAndMergesAreGpt2s) {
  scratch_.write("vocab.json", R"({"h": 0, "e": 1, "\u0120": 2, "he": 3, "\u0120he": 4})");
  scratch_.write("merges.txt", "#version: 0.2\nh e\n\u0120 he\n");
  scratch_.write(
      "tokenizer_config.json",
      R"({"bos_token": "<b>", "add_bos_token": true, "tokenizer_class": "GPT2Tokenizer"})");
  const auto tokenizer = open_tokenizer(scratch_.path().string());
  EXPECT_EQ(tokenizer->encode("he he"), (Ids{5, 3, 4}));
  EXPECT_EQ(tokenizer->decode(Ids{5, 3, 4}), "he he");
  scratch_.write("merges.txt", "h e x\n");
  const auto said = fm::testing::message_of<core::UserError>(
      11, [&] { open_tokenizer(scratch_.path().string()); });
  EXPECT_NE(said.find("merges.txt:1: two tokens with one space are required"), std::string::npos)
      << said;
}

TEST_F(Tokenizers, OfVocabAndMergesFollowTheirClass) {
  scratch_.write("vocab.json", R"({"1": 0, "2": 1, "12": 2, "\u00c3": 3, "\u00a9": 4})");
  scratch_.write("merges.txt", "1 2\n");
  const std::string folder = scratch_.path().string();
  EXPECT_EQ(open_tokenizer(folder)->encode("12e\u0301"), (Ids{2}));
  scratch_.write("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  EXPECT_EQ(open_tokenizer(folder)->encode("12e\u0301"), (Ids{0, 1, 3, 4}));  // digits apart, NFC
  scratch_.write("tokenizer_config.json", R"({"tokenizer_class": "RobertaTokenizer"})");
  const auto said = fm::testing::message_of<core::UserError>(11, [&] { open_tokenizer(folder); });
  EXPECT_NE(said.find("tokenizer_class \"RobertaTokenizer\" is not supported"), std::string::npos);
}

TEST_F(Tokenizers, AFolderWithoutOneIsRefused) {
  const auto said = fm::testing::message_of<core::UserError>(
      11, [&] { open_tokenizer(scratch_.path().string()); });
  EXPECT_NE(said.find("a tokenizer is required: tokenizer.json, vocab.json with merges.txt, or"),
            std::string::npos)
      << said;
}

}  // namespace
}  // namespace fm::tokenizer
