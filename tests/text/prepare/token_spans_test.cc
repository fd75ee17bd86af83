// Which bytes of a text tokens stand for; vocabularies are the single tokens named in the tests.
#include "text/prepare/token_spans.h"

#include <gtest/gtest.h>

#include "tests/text/prepare/scratch.h"

namespace fm::prepare {
namespace {

using Spans = std::vector<std::pair<std::size_t, std::size_t>>;

class TokenSpansTest : public Scratch {
 protected:
  // A tokenizer of these tokens: id i is the i-th. `added` are of its JSON.
  void open(const std::vector<std::string>& tokens, const std::string& added = "") {
    std::string vocab;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      vocab += (i == 0 ? "\"" : ", \"") + tokens[i] + "\": " + std::to_string(i);
    }
    const std::string path =
        write("tokenizer.json", R"({"version": "1.0", "added_tokens": [)" + added +
                                    R"(], "normalizer": null, "pre_tokenizer": null,
                  "post_processor": null, "decoder": null, "model": {"type": "BPE", "vocab": {)" +
                                    vocab + R"(}, "merges": []}})");
    tokenizer_ = tokenizer::open_tokenizer(path);
    spans_.emplace(*tokenizer_);
  }
  Spans find(const std::string& text, const std::vector<tokenizer::TokenId>& ids) const {
    const auto found = spans_->find(text, ids);
    if (!found) return {{99, 99}};
    Spans out;
    for (const jinja::Span& span : *found) out.emplace_back(span.begin, span.end);
    return out;
  }

  std::unique_ptr<const tokenizer::Tokenizer> tokenizer_;
  std::optional<TokenSpans> spans_;
};

TEST_F(TokenSpansTest, BytesOfTheAlphabetMayCutACharacter) {
  open({"\u0120a", "\u00c3", "\u00a9", "\u010a"});
  EXPECT_EQ(find(" a\xC3\xA9\n", {0, 1, 2, 3}), (Spans{{0, 2}, {2, 3}, {3, 4}, {4, 5}}));
}

TEST_F(TokenSpansTest, PiecesHaveMetaSymbolsAndBytes) {
  open({"\u2581yes", "<0xF0>", "<0x9F>", "<0x99>", "<0x82>", "\u2581"});
  EXPECT_EQ(find("yes yes  \xF0\x9F\x99\x82", {0, 0, 5, 5, 1, 2, 3, 4}),
            (Spans{{0, 3}, {3, 7}, {7, 8}, {8, 9}, {9, 10}, {10, 11}, {11, 12}, {12, 13}}));
}

TEST_F(TokenSpansTest, ALineEndMayHaveBecomeASpace) {
  open({"a", "\u2581", "b", "<0x0A>"});
  EXPECT_EQ(find("a\nb", {0, 1, 2}), (Spans{{0, 1}, {1, 2}, {2, 3}}));
  // The space is the tokenizer's own.
  EXPECT_EQ(find("a\nb", {0, 1, 3, 2}), (Spans{{0, 1}, {1, 1}, {1, 2}, {2, 3}}));
}

// A space before the first word, and before that BOS, are the tokenizer's own.
TEST_F(TokenSpansTest, WhatTheTokenizerAddsHasNoBytes) {
  open({"<s>", "\u2581a", "b"});
  EXPECT_EQ(find("ab", {0, 1, 2}), (Spans{{0, 0}, {0, 1}, {1, 2}}));
}

TEST_F(TokenSpansTest, SpacesThatWereLeftOutBelongToNoToken) {
  open({"\u2581a", "\u2581b"});
  EXPECT_EQ(find(" a \n b  ", {0, 1}), (Spans{{0, 2}, {4, 6}}));
}

// As transformers' offsets have it, by which TRL finds what is trained.
TEST_F(TokenSpansTest, SpacesThatAnAddedTokenTakesAreItsOwn) {
  const auto added = [](int id, const std::string& content, const std::string& taking) {
    const auto flag = [&](const char* side) { return taking == side ? "true" : "false"; };
    return R"({"id": )" + std::to_string(id) + R"(, "content": ")" + content + R"(", "lstrip": )" +
           flag("lstrip") + R"(, "rstrip": )" + flag("rstrip") +
           R"(, "single_word": false, "normalized": false, "special": true})";
  };
  open({"\u2581a", "b", "\u2581"},
       added(3, "<r>", "rstrip") + "," + added(4, "<l>", "lstrip") + "," + added(5, "\\t\\t", ""));
  // The spans are those of the tokenizers wheel 0.23, in bytes.
  EXPECT_EQ(find("<r>\n  b", {3, 1}), (Spans{{0, 6}, {6, 7}}));
  EXPECT_EQ(find("b\t <l>", {1, 4}), (Spans{{0, 1}, {1, 6}}));
  EXPECT_EQ(find("<r>\xC2\xA0 <l>", {3, 4}), (Spans{{0, 6}, {6, 9}}));
  EXPECT_EQ(find("b <r>", {1, 3}), (Spans{{0, 1}, {2, 5}}));
  EXPECT_EQ(find("<r>\n  a b", {3, 0, 2, 1}), (Spans{{0, 6}, {6, 7}, {7, 8}, {8, 9}}));
  // An added token may stand within them.
  EXPECT_EQ(find("<r>\n\t\ta", {3, 5, 0}), (Spans{{0, 6}, {4, 6}, {6, 7}}));
}

TEST_F(TokenSpansTest, AChangedTextHasNoSpans) {
  open({"a", "b"});
  EXPECT_EQ(find("Ab", {0, 1}), (Spans{{99, 99}}));
  EXPECT_EQ(find("abc", {0, 1}), (Spans{{99, 99}}));
  EXPECT_EQ(find("a", {0, 1}), (Spans{{99, 99}}));
}

}  // namespace
}  // namespace fm::prepare
