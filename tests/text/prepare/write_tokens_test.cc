// Datasets that are written ahead of a run hold what the run would have made itself.
#include "text/prepare/write_tokens.h"

#include <gtest/gtest.h>

#include "comm/meet/world.h"
#include "tests/text/prepare/scratch.h"
#include "tests/text/prepare/small_tokenizer.h"
#include "text/data/formats/megatron.h"
#include "text/data/formats/token_files.h"
#include "text/data/sample_source.h"
#include "text/prepare/text_recipe.h"

namespace fm::prepare {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

constexpr std::int64_t kVocab = 34;  // of the small tokenizer
constexpr std::int32_t kEos = 30;

Ids ids_of(const data::TokenStream& stream) {
  Ids ids(static_cast<std::size_t>(stream.size()));
  stream.read(0, ids);
  return ids;
}
Ids labels_of(const data::TokenStream& stream) {
  Ids labels(static_cast<std::size_t>(stream.size()));
  stream.read_labels(0, labels);
  return labels;
}

class WriteTokens : public Scratch {
 protected:
  WriteTokens() {
    write("model/tokenizer.json", small_tokenizer());
    write("model/tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
    write("model/chat_template.jinja", kChatMl);
  }

  Recipe recipe(const TextOptions& options = {}) const {
    return read_recipe(folder_ / "model", "", options);
  }
  std::string write_dataset(const std::vector<std::string>& paths, TokenLayout layout,
                            const TextOptions& text = {}, std::int64_t skip = 0) const {
    return write_tokens({.paths = paths,
                         .out = folder_ / "out" / "made",
                         .layout = layout,
                         .threads = 3,
                         .skip_bad_lines = skip},
                        recipe(text));
  }
  // As a run prepares it.
  data::StreamPtr prepared(const std::string& path) const {
    data::StreamPtr stream;
    comm::run_ranks(1, [&](comm::Communicator& host) {
      data::BadLines bad;
      stream = prepare_text(path, recipe(), {.cache_dir = folder_ / "cache"}, bad, host);
    });
    return stream;
  }
  std::vector<std::string> made() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / "out")) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string texts() const {
    std::string lines;
    for (int i = 0; i < 30'000; ++i) {
      lines += R"({"text": ")" + std::string(1, static_cast<char>('a' + i % 26)) + " ab " +
               std::string(static_cast<std::size_t>(i % 90), 'b') + "\"}\n";
    }
    return write("texts.jsonl", lines);
  }
  std::string chat() const {
    return write("chat.jsonl", R"({"messages": [{"role": "user", "content": "c"}, )"
                               R"({"role": "assistant", "content": "d"}]})"
                               "\n"
                               R"({"text": "ab"})"
                               "\n");
  }
};

TEST_F(WriteTokens, AFlatFileHasTheIdsOfTheRunsCache) {
  const std::string path = texts();
  const std::string said = write_dataset({path}, TokenLayout::kFlat);
  EXPECT_NE(said.find("30000 documents"), std::string::npos) << said;
  const auto stream = data::open_tokens(folder_ / "out" / "made", {.vocab = kVocab});
  EXPECT_EQ(ids_of(*stream), ids_of(*prepared(path)));
  EXPECT_EQ(made(), std::vector<std::string>{"made"});
}

TEST_F(WriteTokens, MegatronsFilesHaveTheDocumentsOfTheRunsCache) {
  const std::string path = texts();
  write_dataset({path}, TokenLayout::kMegatron);
  EXPECT_EQ(made(), (std::vector<std::string>{"made.bin", "made.idx"}));
  const auto stream = data::open_megatron(folder_ / "out" / "made", {.vocab = kVocab});
  const auto cache = prepared(path);
  EXPECT_EQ(ids_of(*stream), ids_of(*cache));
  ASSERT_EQ(stream->documents(), cache->documents());
  for (std::int64_t i = 0; i < stream->documents(); ++i) {
    ASSERT_EQ(stream->begin_of(i), cache->begin_of(i));
  }
}

TEST_F(WriteTokens, WhatIsNotTrainedStandsBesideMegatronsFiles) {
  const std::string path = chat();
  write_dataset({path}, TokenLayout::kMegatron);
  EXPECT_EQ(made(), (std::vector<std::string>{"made.bin", "made.counted", "made.idx"}));
  const auto stream = data::open_megatron(folder_ / "out" / "made", {.vocab = kVocab});
  const auto cache = prepared(path);
  EXPECT_EQ(labels_of(*stream), labels_of(*cache));
  EXPECT_NE(labels_of(*stream), ids_of(*stream));
  // 20 ids before the answer (tests/text/prepare/line_forms_test.cc), 3 of it, 3 of the text.
  EXPECT_EQ(std::ranges::count(labels_of(*stream), data::kIgnored), 20);
}

TEST_F(WriteTokens, AFlatFileRefusesWhatIsNotTrained) {
  const std::string path = chat();
  const std::string said = refusal([&] { write_dataset({path}, TokenLayout::kFlat); });
  EXPECT_NE(said.find("chat.jsonl:1: a flat file cannot say"), std::string::npos) << said;
  EXPECT_TRUE(made().empty());
  write_dataset({path}, TokenLayout::kFlat, {.train_on_inputs = true});
  const Ids ids = ids_of(*data::open_tokens(folder_ / "out" / "made", {.vocab = kVocab}));
  EXPECT_EQ(std::ranges::count(ids, kEos), 2);  // behind the chat, too
  EXPECT_EQ(ids.back(), kEos);
}

TEST_F(WriteTokens, FilesComeInTheirOrder) {
  const std::string first = write("a.jsonl", "{\"text\": \"c\"}\n");
  const std::string second = write("b.jsonl", "{\"text\": \"d\"}\n");
  write_dataset({second, first}, TokenLayout::kFlat);
  EXPECT_EQ(ids_of(*data::open_tokens(folder_ / "out" / "made", {.vocab = kVocab})),
            (Ids{33, 3, kEos, 33, 2, kEos}));
}

TEST_F(WriteTokens, BadLinesOfAllFilesAreCounted) {
  const std::string first = write("a.jsonl", "{\"text\": \"c\"}\n{\"text\": 1}\n");
  const std::string second = write("b.jsonl", "no\n{\"text\": \"d\"}\n");
  const std::vector<std::string> both = {first, second};
  EXPECT_NE(refusal([&] { write_dataset(both, TokenLayout::kFlat); }).find("a.jsonl:2: "),
            std::string::npos);
  const std::string one = refusal([&] { write_dataset(both, TokenLayout::kFlat, {}, 1); });
  EXPECT_NE(one.find("b.jsonl:1: "), std::string::npos) << one;
  EXPECT_NE(one.find("--skip_bad_lines allows 1 bad line, 2 were found"), std::string::npos);
  EXPECT_TRUE(made().empty());
  const std::string said = write_dataset(both, TokenLayout::kFlat, {}, 2);
  EXPECT_NE(said.find("2 bad lines skipped (the first: "), std::string::npos) << said;
}

TEST_F(WriteTokens, FieldsWithoutEffectAreNamedOnce) {
  Recipe two = recipe();
  two.read_line = [](std::string_view line, std::vector<data::Document>& documents) -> std::string {
    documents.assign(2, {.ids = {1}, .labels = {}, .unused = {}});
    documents[0].unused = {"id", std::string(line.substr(0, 1))};
    return "";
  };
  const WriteOptions options{.paths = {write("a.jsonl", "{\"text\": \"c\"}\n{}\n"),
                                       write("b.jsonl", "{\"text\": \"c\"}\n")},
                             .out = folder_ / "out" / "made"};
  const std::string said = write_tokens(options, two);
  EXPECT_TRUE(said.ends_with("; fields without effect: id (3 rows), { (3 rows)")) << said;
}

TEST_F(WriteTokens, WhatIsThereIsNotReplaced) {
  const std::string path = write("a.jsonl", "{\"text\": \"c\"}\n");
  write_dataset({path}, TokenLayout::kMegatron);
  EXPECT_NE(refusal([&] { write_dataset({path}, TokenLayout::kMegatron); }).find("made.bin"),
            std::string::npos);
  write_dataset({path}, TokenLayout::kFlat);
  EXPECT_NE(refusal([&] { write_dataset({path}, TokenLayout::kFlat); }).find("must be new"),
            std::string::npos);
}

TEST_F(WriteTokens, NoNameOfTheDatasetIsTakenFromSomebody) {
  const std::string path = write("a.jsonl", "{\"text\": \"c\"}\n");
  const auto refused = [&](TokenLayout layout) {
    return refusal([&] { write_dataset({path}, layout); });
  };
  for (const char* name : {"made.bin", "made.counted", "made.idx"}) {
    write(std::string("out/") + name, "of the user");
    EXPECT_NE(refused(TokenLayout::kMegatron).find(name), std::string::npos) << name;
    EXPECT_EQ(made(), std::vector<std::string>{name});
    fs::remove(folder_ / "out" / name);
  }
  fs::create_symlink("nowhere", folder_ / "out" / "made");
  EXPECT_NE(refused(TokenLayout::kFlat).find("must be new"), std::string::npos);
  EXPECT_TRUE(fs::is_symlink(folder_ / "out" / "made"));
}

// Whenever it is stopped.
TEST_F(WriteTokens, AStoppedOneLeavesNothing) {
  const std::string path = texts();
  int stopped = 0;
  for (int at = 0; !fs::exists(folder_ / "out" / "made"); ++at) {
    int asked = 0;
    try {
      write_tokens({.paths = {path},
                    .out = folder_ / "out" / "made",
                    .threads = 2,
                    .stop = [&] { return ++asked > at; }},
                   recipe());
    } catch (const core::MachineError& error) {
      EXPECT_EQ(error.code(), core::ExitCode::kPreempted);
      ++stopped;
      EXPECT_TRUE(!fs::exists(folder_ / "out") || made().empty()) << at;
    }
  }
  EXPECT_GT(stopped, 2);  // before the first batch, at one, behind the last
  EXPECT_EQ(made(), std::vector<std::string>{"made"});
}

TEST_F(WriteTokens, WhatIsNoTextIsRefused) {
  const std::string path = write("a.jsonl", "{\"input_ids\": [1]}\n");
  EXPECT_NE(refusal([&] { write_dataset({path}, TokenLayout::kFlat); }).find("\"input_ids\""),
            std::string::npos);
  const std::string empty = write("b.jsonl", "\n");
  EXPECT_NE(refusal([&] { write_dataset({empty}, TokenLayout::kFlat); }).find("at least one line"),
            std::string::npos);
}

TEST_F(WriteTokens, AFlatFileNeedsAnEos) {
  std::filesystem::remove(folder_ / "model" / "tokenizer_config.json");
  const std::string path = write("a.jsonl", "{\"text\": \"c\"}\n");
  EXPECT_NE(refusal([&] { write_dataset({path}, TokenLayout::kFlat); }).find("eos_token"),
            std::string::npos);
  EXPECT_NE(write_dataset({path}, TokenLayout::kMegatron).find(": 1 document, "),
            std::string::npos);
}

}  // namespace
}  // namespace fm::prepare
