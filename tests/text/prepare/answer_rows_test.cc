// Which data are answers, by the first row of every file.
#include "text/prepare/answer_rows.h"

#include <zlib.h>

#include "tests/text/prepare/scratch.h"

namespace fm::prepare {
namespace {

constexpr const char* kChat = R"({"messages": [{"role": "user", "content": "a"}]})";
constexpr const char* kText = R"({"text": "a"})";

class AnswerRows : public Scratch {
 protected:
  bool holds(const std::string& jsonl, const TextOptions& options = {}) const {
    const std::vector<std::string> words = {write("rows.jsonl", jsonl)};
    return holds_answers(words, data::DataFormat::kAuto, options);
  }
  bool of_words(const std::vector<std::string>& words,
                data::DataFormat format = data::DataFormat::kAuto) const {
    return holds_answers(words, format, {});
  }
};

TEST_F(AnswerRows, AreConversationsAndPromptsWithCompletions) {
  EXPECT_TRUE(holds(kChat));
  EXPECT_TRUE(holds(R"({"conversations": [{"from": "human", "value": "a"}]})"));
  EXPECT_TRUE(holds(R"({"prompt": "a", "completion": "b"})"));
  EXPECT_TRUE(holds(R"({"instruction": "a", "input": "", "output": "b"})"));
  EXPECT_TRUE(holds(R"({"segments": [{"text": "a", "label": true}]})"));
  EXPECT_FALSE(holds(kText));
  EXPECT_FALSE(holds(R"({"id": 7})"));
}

// tatsu-lab/alpaca has the instruction, the output and a text of both.
TEST_F(AnswerRows, AreReadByTheFieldThatCounts) {
  const std::string both = R"({"instruction": "a", "output": "b", "text": "a b"})";
  EXPECT_TRUE(holds(both));
  EXPECT_FALSE(holds(both, {.text_first = true}));
  EXPECT_FALSE(holds(R"({"instruction": "", "output": "", "text": "a b"})"));
  EXPECT_TRUE(holds(R"({"instruction": "a", "output": "b"})", {.text_first = true}));
}

TEST_F(AnswerRows, AreIdsSomeOfWhichAreNotTrained) {
  EXPECT_TRUE(holds(R"({"input_ids": [1, 2], "labels": [-100, 2]})"));
  EXPECT_TRUE(holds(R"({"input_ids": [1, 2], "completion_mask": [0, 1]})"));
  EXPECT_FALSE(holds(R"({"input_ids": [1, 2], "labels": [1, 2]})"));
  EXPECT_FALSE(holds(R"({"input_ids": [1, 2]})"));
}

TEST_F(AnswerRows, AreKnownBehindLinesThatAreNone) {
  EXPECT_TRUE(holds("\n# a comment\n[1]\n" + std::string(kChat) + "\n" + kText + "\n"));
  EXPECT_TRUE(holds("[" + std::string(kChat) + ",\n" + kText + "]"));
  const std::string text = std::string(kChat) + "\n";
  const std::string path = (folder_ / "packed.jsonl.gz").string();
  gzFile packed = gzopen(path.c_str(), "wb");
  gzwrite(packed, text.data(), static_cast<unsigned>(text.size()));
  gzclose(packed);
  EXPECT_TRUE(of_words({path}));
}

// In a mixture with text, rows of whole documents would cut that.
TEST_F(AnswerRows, AreInEveryFile) {
  const std::string chat = write("chat.jsonl", kChat);
  const std::string more = write("more.jsonl", kChat);
  const std::string text = write("text.jsonl", kText);
  EXPECT_TRUE(of_words({chat, more}));
  EXPECT_FALSE(of_words({chat, text}));
  EXPECT_FALSE(of_words({"0.5", chat, "0.5", text}));
}

TEST_F(AnswerRows, AreMarkedBesideMegatronsFiles) {
  const std::string bin = write("m.bin", "0123");
  EXPECT_FALSE(of_words({bin}, data::DataFormat::kMegatron));
  EXPECT_FALSE(of_words({bin}, data::DataFormat::kTokens));
  write("m.counted", "10");
  EXPECT_TRUE(of_words({bin}, data::DataFormat::kMegatron));
  EXPECT_TRUE(of_words({(folder_ / "m").string()}, data::DataFormat::kMegatron));
}

}  // namespace
}  // namespace fm::prepare
