// Tokenized JSONL and bytes through the cache: the ids and labels that the lines name.
#include <gtest/gtest.h>

#include <mutex>

#include "comm/meet/world.h"
#include "tests/text/prepare/scratch.h"
#include "text/data/data_paths.h"
#include "text/data/documents.h"
#include "text/data/formats/table_rows.h"
#include "text/prepare/text_recipe.h"

namespace fm::prepare {
namespace {

using Ids = std::vector<std::int32_t>;
constexpr std::int32_t kNo = data::kIgnored;

class PlainRecipes : public Scratch {
 protected:
  data::StreamPtr open(const std::string& path, const Recipe& recipe, int ranks = 1) {
    data::StreamPtr opened;
    const std::filesystem::path cache = folder_ / ("cache" + std::to_string(ranks));
    comm::run_ranks(ranks, [&](comm::Communicator& host) {
      data::BadLines bad;
      const data::StreamPtr mine = prepare_text(path, recipe, {.cache_dir = cache}, bad, host);
      const std::lock_guard lock(mutex_);
      if (host.rank() == 0) opened = mine;
      if (host.rank() == host.size() - 1) unused_ = bad.unused;
    });
    return opened;
  }
  std::mutex mutex_;
  data::UnusedFields unused_;  // as the last rank knows them

  static Ids ids_of(const data::TokenStream& stream) {
    Ids ids(static_cast<std::size_t>(stream.size()));
    stream.read(0, ids);
    return ids;
  }
  static Ids labels_of(const data::TokenStream& stream, std::int64_t first = 0) {
    Ids labels(static_cast<std::size_t>(stream.size() - first));
    stream.read_labels(first, labels);
    return labels;
  }
};

TEST_F(PlainRecipes, LabelsMayBeAnyIds) {
  const std::string path = write("a.jsonl", R"({"input_ids": [1, 2, 3]}
{"input_ids": [4, 5, 6], "labels": [4, 9, -100]}
{"input_ids": [7, 8, 9, 1], "labels": [-100, 5, 9, 6], "attention_mask": [1, 1, 0, 1]}
)");
  const data::StreamPtr stream = open(path, id_recipe(10));
  EXPECT_EQ(ids_of(*stream), (Ids{1, 2, 3, 4, 5, 6, 7, 8, 1}));
  EXPECT_EQ(labels_of(*stream), (Ids{1, 2, 3, 4, 9, kNo, kNo, 5, 6}));
  EXPECT_EQ(labels_of(*stream, 4), (Ids{9, kNo, kNo, 5, 6}));
  EXPECT_EQ(labels_of(*stream, 8), (Ids{6}));
  EXPECT_EQ(stream->documents(), 3);
  EXPECT_EQ(stream->begin_of(2), 6);
  EXPECT_EQ(stream->describe(), path + ": 3 documents, 9 tokens (input_ids), 7 trained on");
}

// The file is cut between ranks; labels keep their places.
TEST_F(PlainRecipes, AnyNumberOfRanksGivesWhatMemoryHolds) {
  std::string text;
  for (int line = 0; line < 3000; ++line) {
    const std::string a = std::to_string(line % 97);
    const std::string b = std::to_string(line % 89);
    text += R"({"input_ids": [)" + a + ", " + b + ", 5]";
    if (line % 7 == 0) text += R"(, "labels": [)" + b + ", -100, " + a + "]";
    text += "}\n";
  }
  const std::string path = write("b.jsonl", text);
  data::BadLines bad;
  const data::StreamPtr held =
      data::open_ids({path, data::DataFormat::kJsonlIds}, {.vocab = 100}, bad);
  for (const int ranks : {1, 2, 3}) {
    const data::StreamPtr stream = open(path, id_recipe(100), ranks);
    EXPECT_EQ(ids_of(*stream), ids_of(*held)) << ranks;
    EXPECT_EQ(labels_of(*stream), labels_of(*held)) << ranks;
  }
}

// Every rank reads a part; a second start does not read the lines at all.
TEST_F(PlainRecipes, FieldsWithoutEffectAreToldByTheCacheToo) {
  std::string text;
  for (int line = 0; line < 400; ++line) {
    text += R"({"input_ids": [1, 2], "id": 7)";
    text += line % 40 == 0 ? ", \"\u00e9\": 1}\n" : "}\n";
  }
  const std::string path = write("f.jsonl", text);
  const data::UnusedFields expected = {{"id", 400}, {"\u00e9", 10}};
  for (const int ranks : {1, 3}) {
    for (int start = 0; start < 2; ++start) {
      unused_.clear();
      open(path, id_recipe(10), ranks);
      EXPECT_EQ(unused_, expected) << ranks << " ranks, start " << start;
    }
  }
}

TEST_F(PlainRecipes, BytesEndWithTheEndOfTextId) {
  const std::string path = write("c.jsonl", "{\"text\": \"h\u00e9\"}\n{\"text\": \"\"}\n");
  const data::StreamPtr stream = open(path, byte_recipe("text"));
  EXPECT_EQ(ids_of(*stream), (Ids{'h', 0xc3, 0xa9, core::kEosId, core::kEosId}));
  EXPECT_EQ(stream->filler(), core::kPadId);
  EXPECT_EQ(stream->describe(), path + ": 2 documents, 5 byte tokens");
}

// Lines of text keep their numbers in messages, whichever rank reads them; a CSV file is read by
// one.
TEST_F(PlainRecipes, RowsOfTextAndCsvAreTheSameOnAnyNumberOfRanks) {
  std::string text = "\xef\xbb\xbf";
  std::string csv = "id,text\n";
  for (int line = 0; line < 2000; ++line) {
    const std::string word(static_cast<std::size_t>(line % 50), 'w');
    text += word + (line % 3 == 0 ? "\r\n" : "\n");
    csv += std::to_string(line) + ",\"" + word + (line % 5 == 0 ? "\n\"\n" : "\"\n");
  }
  Recipe lines = byte_recipe("text");
  lines.rows = data::RowLayout::kTextLines;
  Recipe table = byte_recipe("text");
  table.rows = data::RowLayout::kCsv;
  for (const auto& [path, recipe] :
       {std::pair(write("t.txt", text), lines), std::pair(write("t.csv", csv), table)}) {
    const data::StreamPtr alone = open(path, recipe, 1);
    EXPECT_EQ(alone->documents(), recipe.rows == data::RowLayout::kCsv ? 2000 : 1960);
    for (const int ranks : {2, 3}) {
      EXPECT_EQ(ids_of(*open(path, recipe, ranks)), ids_of(*alone)) << path << " " << ranks;
    }
  }
  const std::string bad = write("bad.txt", text + "\xff\n");
  for (const int ranks : {1, 3}) {
    const std::string said = refusal([&] { open(bad, lines, ranks); });
    EXPECT_NE(said.find("bad.txt:2001: text must be UTF-8"), std::string::npos) << said;
  }
}

// The file has row groups of 3, 3 and 1 rows: pyarrow's write_table(row_group_size=3).
TEST_F(PlainRecipes, RanksReadTheRowGroupsOfATable) {
  const std::string path = FM_FOLDER "/seven_rows.parquet";
  Ids all;
  for (const std::string text : {"ab", "c", "\u00e9", "d\ne", "f", "gh", "i"}) {
    for (const char byte : text) all.push_back(static_cast<unsigned char>(byte));
    all.push_back(core::kEosId);
  }
  Recipe recipe = byte_recipe("text");
  recipe.rows = data::RowLayout::kParquet;
  try {
    data::open_table(path, recipe.rows);
  } catch (const core::UserError& error) {
    GTEST_SKIP() << error.what();
  }
  Recipe maybe = byte_recipe("maybe");
  maybe.rows = recipe.rows;
  for (const int ranks : {1, 2, 3, 5}) {
    EXPECT_EQ(ids_of(*open(path, recipe, ranks)), all) << ranks;
    const std::string said = refusal([&] { open(path, maybe, ranks); });
    EXPECT_NE(said.find("seven_rows.parquet:5: field \"maybe\" is required"), std::string::npos)
        << said;
  }
}

TEST_F(PlainRecipes, ColumnsHaveTheirMeanings) {
  data::Columns columns;
  columns.add("tokens=input_ids,trained=loss_mask");
  const std::string path = write("g.jsonl", R"({"tokens": [1, 2], "trained": [0, 1], "id": 7})");
  const data::StreamPtr stream = open(path, id_recipe(10, columns));
  EXPECT_EQ(ids_of(*stream), (Ids{1, 2}));
  EXPECT_EQ(labels_of(*stream), (Ids{data::kIgnored, 2}));
  const std::string other = write("h.jsonl", R"({"tokens": [1, 2]})");
  const std::string said = refusal([&] { open(other, id_recipe(10, columns)); });
  EXPECT_NE(said.find("h.jsonl:1: a column \"trained\" is required by --columns trained=loss_mask; "
                      "name one that the row has (tokens)"),
            std::string::npos)
      << said;
  data::Columns texts;
  texts.add("body=text");
  const std::string bytes = write("i.jsonl", R"({"body": "x", "id": 1})");
  EXPECT_EQ(ids_of(*open(bytes, byte_recipe("text", texts))), (Ids{'x', core::kEosId}));
}

TEST_F(PlainRecipes, LostLabelsAreNoticed) {
  const std::string path = write("e.jsonl", R"({"input_ids": [1, 2], "labels": [1, 3]})");
  open(path, id_recipe(10));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "cache1")) {
    if (entry.path().extension() == ".labels") std::filesystem::remove(entry.path());
  }
  const std::string refused = refusal([&] { open(path, id_recipe(10)); });
  EXPECT_NE(refused.find("part-00000.bin: prepared text must be as it was written"),
            std::string::npos)
      << refused;
}

TEST_F(PlainRecipes, WrongLinesAreNamed) {
  const std::string path = write("d.jsonl", "{\"input_ids\": [1]}\n{\"input_ids\": [10]}\n");
  const std::string refused = refusal([&] { open(path, id_recipe(10)); });
  EXPECT_NE(refused.find("d.jsonl:2: field \"input_ids\""), std::string::npos) << refused;
  EXPECT_NE(refused.find("number 10 at position 0, vocab_size=10"), std::string::npos) << refused;
}

}  // namespace
}  // namespace fm::prepare
