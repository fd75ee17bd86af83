#include "text/prepare/extended_folder.h"

#include <gtest/gtest.h>

#include "small_tokenizer.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::prepare {
namespace {

using Words = std::vector<std::string>;

class ExtendedFolder : public ::testing::Test {
 protected:
  ExtendedFolder() {
    scratch_.write("tokenizer.json", small_tokenizer());
    scratch_.write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
  }
  Words markers(std::string_view text) const {
    return markers_without_token({scratch_.path(), scratch_.write("other.jinja", text)}, {});
  }

  testing::ScratchFolder scratch_;
};

// <s> is 33, <|im_end|> 32, </s> 30.
TEST_F(ExtendedFolder, GenerationEndsAtTheTokenBehindAnAnswer) {
  const ChatFolder at{scratch_.path(), scratch_.write("chatml.jinja", kChatMl)};
  const auto end_of = [&](const std::string& token) {
    return extended_folder(at, {.tokens = {token}}).at("generation_config.json");
  };
  EXPECT_EQ(end_of("<more>"), "{\"bos_token_id\": 33, \"eos_token_id\": [32, 30]}\n");
  scratch_.write("generation_config.json", R"({"eos_token_id": 30, "top_k": 5})");
  EXPECT_EQ(end_of("<more>"), R"({"eos_token_id": [32, 30], "top_k": 5})");
  // The longest token counts.
  scratch_.write("chatml.jinja", "{{ messages[1].content }} <|im_end|>!");
  EXPECT_EQ(end_of("<|im_end|>!"), R"({"eos_token_id": [34, 30], "top_k": 5})");
  EXPECT_TRUE(extended_folder(at, {}).empty());
}

TEST_F(ExtendedFolder, MarkersThatAreNoTokensAreFound) {
  EXPECT_EQ(markers(kChatMl), Words{});
  EXPECT_EQ(markers("<|im_start|>{% for m in messages %}<|{{ m.role }}|><b><start_of_turn>"
                    "{{ m.content }}<|eot|><| x |><|eot|>{% endfor %}"),
            (Words{"<|user|>", "<start_of_turn>", "<|eot|>", "<|assistant|>"}));
  EXPECT_EQ(markers("{{ raise_exception('no') }}<|x|>"), Words{});
  EXPECT_EQ(markers_without_token({scratch_.path()}, {}), Words{});
}

}  // namespace
}  // namespace fm::prepare
