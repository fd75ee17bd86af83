#include "engine/infer/completion.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/hf_folder.h"
#include "core/check.h"

namespace fm::engine {
namespace {

std::string search(StopSearch& stops, const std::vector<std::string>& pieces) {
  std::string shown;
  for (const std::string& piece : pieces) shown += stops.put(piece) + "|";
  return shown + stops.finish();
}

TEST(StopSearch, HoldsBackWhatMayBecomeAStopAndEndsBeforeIt) {
  StopSearch stops({"END", "\n\n"});
  EXPECT_EQ(search(stops, {"an E", "N", "d", "\n", "x", "\n", "\nmore"}), "an ||ENd||\nx|||");
  EXPECT_TRUE(stops.found());
}

TEST(StopSearch, GivesWhatWaitedAtTheEnd) {
  StopSearch stops({"END"});
  EXPECT_EQ(search(stops, {"EN", "EN"}), "|EN|EN");
  EXPECT_FALSE(stops.found());
}

TEST(StopSearch, TakesTheFirstOfSeveral) {
  StopSearch stops({"cd", "b"});
  EXPECT_EQ(search(stops, {"abcd"}), "a|");
}

// The built-in tokenizer: ids are bytes, 257 ends a text.
class Completions : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "tokenizer.json") << checkpoint::byte_tokenizer_json();
    std::ofstream(folder_ / "tokenizer_config.json") << checkpoint::byte_tokenizer_config_json();
    text_.emplace(folder_, 300);
  }

  // Puts logits that make these ids the likeliest, one after the other.
  std::string complete(Completion& completion, Sequence& sequence,
                       const std::vector<std::int32_t>& ids) {
    std::string shown;
    for (const std::int32_t id : ids) {
      std::vector<float> logits(300);
      logits[static_cast<std::size_t>(id)] = 1.0F;
      shown += completion.put(logits, sequence) + "|";
    }
    return shown;
  }

  std::filesystem::path folder_ = testing::TempDir() + "/fm_completion";
  std::optional<ModelText> text_;
};

TEST_F(Completions, EndAtTheEndTokenWhichIsNoText) {
  const CompletionLimits limits;
  const Prompt prompt = text_->of_text("a");
  EXPECT_EQ(prompt.ids, (std::vector<std::int32_t>{97}));
  Sequence sequence{.ids = prompt.ids, .capacity = 9};
  Completion completion(*text_, limits, prompt, 0);
  EXPECT_EQ(complete(completion, sequence, {98, 257}), "b||");
  EXPECT_TRUE(completion.done() && completion.whole());
  EXPECT_EQ(completion.ids(), (std::vector<std::int32_t>{98, 257}));
  EXPECT_EQ(sequence.ids, (std::vector<std::int32_t>{97, 98}));
}

TEST_F(Completions, EndAtWhatTheModelsFolderNamesAsWell) {
  const ModelText text(folder_, 300, {98});
  EXPECT_TRUE(text.ends(98) && text.ends(257));
  EXPECT_FALSE(text.ends(97) || text_->ends(98));
}

TEST_F(Completions, ShowACharacterWhenItIsWhole) {
  const CompletionLimits limits{.max_new_tokens = 3};
  const Prompt prompt = text_->of_text("\xc3\xa4");
  Sequence sequence{.ids = prompt.ids, .capacity = 9};
  Completion completion(*text_, limits, prompt, 0);
  EXPECT_EQ(complete(completion, sequence, {0xE2, 0x82, 0xAC}), "||\xe2\x82\xac|");
  EXPECT_TRUE(completion.done());
  EXPECT_FALSE(completion.whole());
}

TEST_F(Completions, EndWhereTheCacheIsFull) {
  const CompletionLimits limits;
  const Prompt prompt = text_->of_text("ab");
  Sequence sequence{.ids = prompt.ids, .capacity = 4};
  Completion completion(*text_, limits, prompt, 0);
  EXPECT_EQ(complete(completion, sequence, {97, 98}), "a|b|");
  EXPECT_TRUE(completion.done());
}

TEST_F(Completions, BeginBehindTheEndOfAnotherTextWithoutAPrompt) {
  EXPECT_EQ(text_->of_text("").ids, (std::vector<std::int32_t>{257}));
}

// Ids are bytes, and those of added tokens behind them.
TEST_F(Completions, AnAddedTokenWithoutARowIsRefusedWhereItIsUsed) {
  const ModelText small(folder_, 257);
  EXPECT_EQ(small.of_text("a").ids, (std::vector<std::int32_t>{97}));
  EXPECT_THROW(small.of_text(""), core::UserError) << "257 ends a text";
  EXPECT_THROW(ModelText(folder_, 255), core::UserError);
}

TEST_F(Completions, PromptsComeFromLinesAndJsonl) {
  const std::string lines = (folder_ / "prompts.txt").string();
  std::ofstream(lines) << "one\n\ntwo\r\n";
  const std::vector<Prompt> plain = read_prompts({lines}, *text_);
  ASSERT_EQ(plain.size(), 2U);
  EXPECT_EQ(plain[1].text, "two");
  const std::string jsonl = (folder_ / "prompts.jsonl").string();
  std::ofstream(jsonl) << "{\"prompt\": \"a\\nb\"}\n{\"text\": \"c\"}\n";
  try {
    read_prompts({jsonl}, *text_);
    ADD_FAILURE() << "the second line has no prompt";
  } catch (const core::UserError& error) {
    EXPECT_EQ(error.code(), core::ExitCode::kDataError);
    EXPECT_NE(std::string(error.what()).find("prompts.jsonl:2: an object with the text \"prompt\""),
              std::string::npos)
        << error.what();
  }
}

TEST_F(Completions, PromptsMayBeOneArray) {
  const std::string array = (folder_ / "prompts.json").string();
  std::ofstream(array) << "[\n  {\"prompt\":\n \"one\"},\n  {\"prompt\": \"two\"}\n]\n";
  const std::vector<Prompt> prompts = read_prompts({array}, *text_);
  ASSERT_EQ(prompts.size(), 2U);
  EXPECT_EQ(prompts[0].text, "one");
  EXPECT_EQ(prompts[1].text, "two");
}

TEST_F(Completions, PromptsAreUtf8) {
  const std::string path = (folder_ / "latin.txt").string();
  std::ofstream(path) << "\xef\xbb\xbfone\n";
  EXPECT_EQ(read_prompts({path}, *text_).at(0).text, "one");
  for (const char* name : {"latin.txt", "latin.jsonl"}) {
    const std::string bad = (folder_ / name).string();
    std::ofstream(bad) << "{\"prompt\": \"a\"}\n{\"prompt\": \"caf\xe9\"}\n";
    try {
      read_prompts({bad}, *text_);
      ADD_FAILURE() << name;
    } catch (const core::UserError& error) {
      EXPECT_EQ(error.code(), core::ExitCode::kDataError);
      EXPECT_NE(std::string(error.what()).find(bad + ":2: "), std::string::npos) << error.what();
    }
  }
}

TEST_F(Completions, AConversationNeedsATemplate) {
  EXPECT_THROW(text_->of_conversation(text_->ask("", "hello")), core::UserError);
  std::ofstream(folder_ / "chat_template.jinja")
      << "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
         "{% if add_generation_prompt %}[assistant] {% endif %}";
  const ModelText chats(folder_, 300);
  EXPECT_EQ(chats.of_conversation(chats.ask("Be brief.", "Why?")).text,
            "[system] Be brief.\n[user] Why?\n[assistant] ");
  const std::string lines = (folder_ / "nulls.jsonl").string();
  std::ofstream(lines) << R"({"prompt": "one", "messages": null})" << '\n'
                       << R"({"prompt": [{"role": "user", "content": "Why?"}], "messages": null})"
                       << '\n';
  const std::vector<Prompt> prompts = read_prompts({lines}, chats);
  ASSERT_EQ(prompts.size(), 2U);
  EXPECT_EQ(prompts[0].text, "one");
  EXPECT_EQ(prompts[1].text, "[user] Why?\n[assistant] ");
  const auto asked = [&](const std::string& line) {
    std::ofstream(lines) << line << '\n';
    return read_prompts({.path = lines, .chat = true, .system = "Be brief."}, chats)[0].text;
  };
  EXPECT_EQ(asked(R"({"messages": [{"role": "user", "content": "Why?"}]})"),
            "[system] Be brief.\n[user] Why?\n[assistant] ");
  EXPECT_EQ(asked(R"({"messages": [{"role": "system", "content": "S"},)"
                  R"( {"role": "user", "content": "Why?"}]})"),
            "[system] S\n[user] Why?\n[assistant] ");
  EXPECT_THROW(asked(R"({"prompt": "Why?", "system": "S"})"), core::UserError);
  EXPECT_THROW(asked(R"({"messages": [], "prompt": "a", "completion": "b"})"), core::UserError);
  std::filesystem::remove(folder_ / "chat_template.jinja");
}

}  // namespace
}  // namespace fm::engine
