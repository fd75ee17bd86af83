#include "text/chat/model_folder.h"

#include <gtest/gtest.h>

#include "tests/text/data/scratch_folder.h"

namespace fm::chat {
namespace {

using testing::message_of;
using testing::ScratchFolder;

std::string rendered(const ChatFormat& format) {
  return format.plain.render(format.tokens, 0).text;
}

TEST(ChatFormat, IsTheTextOfTheTokenizersConfiguration) {
  const ScratchFolder folder;
  folder.write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": {"content": "</s>"},
      "pad_token": null, "image_token": "<i>",
      "model_max_length": 1000000000000000019884624838656,
      "added_tokens_decoder": {"7": {"content": "<|x|>"}},
      "chat_template": "{{ bos_token }}{{ eos_token }}{{ image_token }}{{ pad_token }}"})");
  folder.write("tokenizer.json", R"({"added_tokens": [{"id": 1, "content": "<|y|>"}]})");
  const std::optional<ChatFormat> format = read_chat_format(folder.path());
  ASSERT_TRUE(format);
  EXPECT_EQ(rendered(*format), "<s></s><i>");
  EXPECT_EQ(format->added_tokens,
            (std::vector<std::string>{"</s>", "<i>", "<s>", "<|x|>", "<|y|>"}));
}

TEST(ChatFormat, OfItsOwnFileWins) {
  const ScratchFolder folder;
  folder.write("tokenizer_config.json", R"({"chat_template": "old", "eos_token": "E"})");
  folder.write("chat_template.jinja", "new {{ eos_token }}\n");
  EXPECT_EQ(rendered(*read_chat_format(folder.path())), "new E");
  const std::string other = folder.write("other.jinja", "other {{ eos_token }}");
  EXPECT_EQ(rendered(read_chat_format(folder.path(), other)), "other E");
}

TEST(ChatFormat, MayHaveAnotherTemplateForTools) {
  const ScratchFolder folder;
  folder.write("tokenizer_config.json", R"({"chat_template": [
      {"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]})");
  const std::optional<ChatFormat> format = read_chat_format(folder.path());
  EXPECT_EQ(rendered(*format), "d");
  EXPECT_EQ(format->with_tools->render({}, 0).text, "t");
}

TEST(ChatFormat, ReadsTokensOfOlderFolders) {
  const ScratchFolder folder;
  folder.write("tokenizer_config.json", R"({"chat_template": "{{ bos_token }}{{ eos_token }}"})");
  folder.write("special_tokens_map.json", R"({"bos_token": "B", "eos_token": {"content": "E"}})");
  EXPECT_EQ(rendered(*read_chat_format(folder.path())), "BE");
}

// The same sources as the tokenizer's: answers begin and end at their texts.
TEST(ChatFormat, KnowsEverySourceOfAddedTokens) {
  const testing::ScratchFolder folder;
  const auto tokens = [&](const std::string& config) {
    folder.write("tokenizer_config.json", R"({"chat_template": "a", )" + config + "}");
    return read_chat_format(folder.path())->added_tokens;
  };
  folder.write("added_tokens.json", R"({"<one>": 5, "<two>": 6})");
  using Texts = std::vector<std::string>;
  EXPECT_EQ(tokens(R"("bos_token": "<s>")"), (Texts{"<one>", "<s>", "<two>"}));
  EXPECT_EQ(tokens(R"("added_tokens_decoder": {"5": {"content": "<x>"}})"), Texts{"<x>"});
  const std::string none = R"("added_tokens_decoder": {}, )";
  EXPECT_EQ(tokens(none + R"("additional_special_tokens": ["<a>", {"content": "<b>"}])"),
            (Texts{"<a>", "<b>"}));
  EXPECT_EQ(tokens(none + R"("additional_special_tokens": null, "extra_special_tokens": ["<c>"])"),
            Texts{"<c>"});
  EXPECT_EQ(tokens(none + R"("model_specific_special_tokens": {"boi": "<i>"})"), Texts{"<i>"});
}

TEST(ChatFormat, IsNoneWithoutATemplate) {
  const ScratchFolder folder;
  EXPECT_FALSE(read_chat_format(folder.path()));
  folder.write("tokenizer_config.json", R"({"eos_token": "E"})");
  EXPECT_FALSE(read_chat_format(folder.path()));
}

TEST(ChatFormat, AddedTokensMayBeNullAndMustBeAList) {
  const ScratchFolder folder;
  folder.write("chat_template.jinja", "x");
  folder.write("tokenizer_config.json", R"({"added_tokens_decoder": null, "eos_token": "E"})");
  folder.write("tokenizer.json", R"({"added_tokens": null})");
  EXPECT_EQ(read_chat_format(folder.path())->added_tokens, std::vector<std::string>{"E"});
  for (const char* const wrong : {"7", "true", "\"E\""}) {
    folder.write("tokenizer.json", std::string(R"({"added_tokens": )") + wrong + "}");
    const std::string said =
        message_of<core::UserError>(11, [&] { read_chat_format(folder.path()); });
    EXPECT_NE(said.find("must be lists or objects"), std::string::npos);
  }
}

TEST(ChatFormat, NamesTheFileThatIsWrong) {
  const ScratchFolder folder;
  const auto read = [&] { read_chat_format(folder.path()); };
  const std::string config = folder.write("tokenizer_config.json", "{");
  EXPECT_EQ(message_of<core::UserError>(11, read),
            config + ":1: JSON is required; correct the JSON at byte 2");
  folder.write("tokenizer_config.json", R"({"chat_template": "a\n{{ 1 + }}"})");
  EXPECT_EQ(
      message_of<core::UserError>(11, read),
      config + " (chat_template):2: an expression is required here; correct the template (}})");
  folder.write("tokenizer_config.json", R"({"chat_template": [{"name": "x", "template": "t"}]})");
  EXPECT_EQ(message_of<core::UserError>(11, read),
            folder.path().string() +
                ": one of several chat templates must be named default; give " +
                "one by its file (1 templates)");
}

}  // namespace
}  // namespace fm::chat
