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
    return holds_answers(words, data::DataFormat::kAuto, {.columns = options.columns}, options);
  }
  bool of_words(const std::vector<std::string>& words,
                data::DataFormat format = data::DataFormat::kAuto) const {
    return holds_answers(words, format, {}, {});
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

TEST_F(AnswerRows, AreKnownByWhatColumnsMean) {
  TextOptions renamed;
  renamed.columns.add("question=prompt,answer=completion");
  const std::string row = R"({"question": "a", "answer": "b"})";
  EXPECT_FALSE(holds(row));
  EXPECT_TRUE(holds(row, renamed));
  const std::vector<std::string> csv = {write("rows.csv", "question,answer\na,b\n")};
  const data::RowOptions rows{.columns = renamed.columns};
  EXPECT_TRUE(holds_answers(csv, data::DataFormat::kAuto, rows, renamed));
  EXPECT_FALSE(of_words({write("lines.txt", "a\nb\n")}));
  data::RowOptions talk;
  talk.columns.add("talk=messages");
  const std::vector<std::string> chats = {
      write("talks.jsonl", R"({"talk": [{"role": "user", "content": "a"}]})")};
  EXPECT_TRUE(begins_with_chat(chats, data::DataFormat::kAuto, talk));
  EXPECT_FALSE(begins_with_chat(chats, data::DataFormat::kAuto, {}));
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

TEST_F(AnswerRows, AreInMdsWhereAColumnSaysWhatIsTrained) {
  const auto index = [](const char* names, const char* encodings, const char* sizes) {
    return core::concat(
        R"({"version": 2, "shards": [{"column_encodings": [)", encodings, R"(], "column_names": [)",
        names, R"(], "column_sizes": [)", sizes,
        R"(], "compression": null, "zip_data": null, "format": "mds", "hashes": [],)",
        R"( "raw_data": {"basename": "a.mds", "bytes": 60, "hashes": {}}, "samples": 1,)",
        R"( "size_limit": 67108864, "version": 2}]})");
  };
  write("mds/a.mds", std::string(60, 'a'));
  write("mds/index.json", index(R"("tokens")", R"("ndarray:int32")", "null"));
  const std::string folder = (folder_ / "mds").string();
  EXPECT_FALSE(of_words({folder}));
  write("mds/index.json",
        index(R"("tokens", "labels")", R"("ndarray:int32", "ndarray:int32")", "null, null"));
  EXPECT_TRUE(of_words({folder}));
}

// The data of a plan need not be there.
TEST_F(AnswerRows, AreInNoFileThatIsNotThere) {
  EXPECT_FALSE(of_words({"nothing.jsonl"}, data::DataFormat::kJsonl));
  EXPECT_FALSE(of_words({"nothing"}, data::DataFormat::kMegatron));
  EXPECT_FALSE(of_words({"nothing"}, data::DataFormat::kMds));
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
