// Thousands of damaged files: a tokenizer is refused as a wrong file of the user, or it works;
// under the sanitizers, nothing is read that is not there.
#include <gtest/gtest.h>

#include <random>

#include "core/check.h"
#include "tests/text/tokenizer/small_tokenizers.h"
#include "text/tokenizer/open_tokenizer.h"

namespace fm::tokenizer {
namespace {

std::string mutated(std::string text, std::string_view letters, std::mt19937& random) {
  const auto changes = 1 + random() % 3;
  for (unsigned long change = 0; change < changes; ++change) {
    const std::size_t at = random() % text.size();
    const char letter = letters[random() % letters.size()];
    switch (random() % 4) {
      case 0: text[at] = letter; break;
      case 1: text.insert(at, 1, letter); break;
      case 2: text.erase(at, 1 + random() % 6); break;
      default:  // the third: a piece is doubled
        text.insert(at, text.substr(random() % text.size(), random() % 24));
        break;
    }
    if (text.empty()) text = " ";
  }
  return text;
}

// Whether the file was taken.
bool survives(const std::function<Parts()>& read) {
  try {
    Parts parts = read();
    parts->added.finish(parts->normalizer);
    const Tokenizer tokenizer(std::move(parts));
    for (const std::string_view text :
         {"hello  world<s> [x] a\u00E9b \u2581\u2581ab ba", "abab \xFF\u4E2D 1'LL\n\n", ""}) {
      const std::vector<TokenId> ids = tokenizer.encode(text);
      for (const TokenId id : ids) EXPECT_GE(id, 0);
      tokenizer.decode(ids);
      StreamDecoder stream(tokenizer, Skip::kNothing);
      for (const TokenId id : ids) stream.put(id);
      stream.finish();
    }
    return true;
  } catch (const core::UserError& error) {
    EXPECT_EQ(error.code(), core::ExitCode::kDataError) << error.what();
    EXPECT_NE(std::string(error.what()).find("f"), std::string::npos);
    return false;
  }
}

TEST(TokenizerMutation, DamagedJsonIsRefusedOrWorks) {
  const std::string split = R"({"type": "Sequence", "pretokenizers": [{"type": "Split",
    "pattern": {"Regex": "(a|b)+| ?\\p{L}{1,3}"}, "behavior": "MergedWithNext", "invert": true},
    {"type": "Digits", "individual_digits": false},
    {"type": "Metaspace", "prepend_scheme": "first"}]})";
  const std::string seeds[] = {
      std::string(kByteLevelJson), std::string(kMetaSpaceJson),
      with(kMetaSpaceJson, R"("pre_tokenizer": null)", "\"pre_tokenizer\": " + split),
      R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Nmt"},
        {"type": "Precompiled", "precompiled_charsmap": "CAAAAAAEAAACAAAAYQA="}]},
        "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": true,
        "vocab": [["<unk>", 0], ["a", -1.5], ["b", -2], ["ab", -2.5], ["<0xC3>", -9]]}})"};
  std::mt19937 random(20260725);
  int taken = 0;
  for (int round = 0; round < 3'000; ++round) {
    const std::string text =
        mutated(seeds[random() % std::size(seeds)], "{}[]\":,\\untab0159- \n<>x\xC3\xFF", random);
    taken += survives([&] { return read_tokenizer_json("f", text); }) ? 1 : 0;
  }
  EXPECT_GT(taken, 150);
}

TEST(TokenizerMutation, DamagedModelsAreRefusedOrWork) {
  std::mt19937 random(20260726);
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  int taken = 0;
  for (int round = 0; round < 6'000; ++round) {
    const std::string model =
        mutated(small_model(1 + static_cast<int>(random() % 2)), bytes, random);
    taken += survives([&] { return read_sentencepiece("f", model, nullptr); }) ? 1 : 0;
  }
  EXPECT_GT(taken, 150);
}

TEST(TokenizerMutation, DeepJsonIsRefused) {
  const std::string deep = "{\"a\":" + std::string(5'000'000, '[');
  EXPECT_FALSE(survives([&] { return read_tokenizer_json("f", deep); }));
}

}  // namespace
}  // namespace fm::tokenizer
